"""Which MCP servers there are: the ecosystem's `mcpServers` JSON, read once into frozen values.

The file is the user's own client configuration or one written for Moonpool. Three dialects are read: Claude Desktop,
Claude Code and VS Code (`servers` instead of `mcpServers`), with comments and trailing commas where there are any.
Top-level keys of the client are ignored. One entry:
`server_entry`; what comes of it: `server_config`. Connections: `upstreams`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, cast

from moonpool.configuration.expansion import Expansion
from moonpool.configuration.jsonc import without_comments
from moonpool.configuration.server_config import McpConfig, ServerConfig, ServerLeftOutError, ToolRule, resolved_key
from moonpool.configuration.server_entry import read_entry, resolve
from moonpool.configuration.value_files import read_value_file
from moonpool.core.conversion import kind_of
from moonpool.core.errors import ConfigError, MoonpoolError
from moonpool.core.lookalikes import looks_like
from moonpool.core.phrases import clip, near_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from moonpool.configuration.expansion import FileSource, SecretSource

__all__ = ["McpConfig", "ServerConfig", "ToolRule", "load_config", "parse_config", "resolved_key"]

CONFIG_BYTES_MAX: Final = 1024 * 1024
SERVER_COUNT_MAX: Final = 256
SERVER_ID_LENGTH_MAX: Final = 128
_REMEDIES: Final = {
    "Expecting ',' delimiter": "put a comma before it, or close what is open before it",
    "Expecting ':' delimiter": 'write "name": value',
    "Expecting property name": 'write a name in double quotes there: "name": value',
    "Expecting value": 'write a value there: "text" in double quotes, a number, true, false, null, [...] or {...}',
    "Unterminated string": 'close the string that begins there with "',
    "Extra data": "remove what follows the end of the object",
    "Invalid control character": "write \\n for a line break and \\t for a tab in a string",
    "Invalid \\": "write \\\\ for a backslash in a string",
}
"""What to write where `json` says so."""


NO_FILE_REMEDY: Final = "pass --config FILE or run `moonpool init`"


def load_config(
    path: Path,
    environ: Mapping[str, str],
    *,
    stored: SecretSource | None = None,
    remedy: str = NO_FILE_REMEDY,
    here: str = ".",
) -> McpConfig:
    """Read and parse `path`. Raises ConfigError in one sentence that names the file and the remedy.

    A server whose own entry cannot be used is left out (`McpConfig.left_out`); the others are there.

    `stored` gives the values of `${secret:NAME}` and raises what the secret store raises. `${file:PATH}` is read.
    `remedy` is what to do where there is no such file, `here` the folder from which commands count.
    """
    try:
        with path.open("rb") as file:
            text = file.read(CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; {remedy}") from None
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror or exc}") from None
    # Whoever approves a call may stand in another folder.
    return parse_config(
        text,
        source=str(path.absolute()),
        environ=environ,
        stored=stored,
        files=read_value_file,
        leave_out=True,
        here=here,
    )


def parse_config(
    text: bytes,
    *,
    source: str,
    environ: Mapping[str, str],
    stored: SecretSource | None = None,
    files: FileSource | None = None,
    leave_out: bool = False,
    here: str = ".",
) -> McpConfig:
    """Parse the bytes of a configuration file; `source` names it in messages. Raises ConfigError.

    `leave_out`: an entry that cannot be used is no error, but named in `left_out`.
    """
    entries = _server_entries(_decode(text, source), source)
    if len(entries) > SERVER_COUNT_MAX:
        raise ConfigError(f"{source}: {len(entries)} servers are configured; at most {SERVER_COUNT_MAX} are served")
    _check_apart(entries, source)
    servers: list[ServerConfig] = []
    disabled: list[str] = []
    left_out: dict[str, ServerLeftOutError] = {}
    for server_id, raw in entries.items():
        _check_server_id(server_id, source)
        where = f"{source}: server {server_id!r}"
        try:
            entry = read_entry(raw, where)
            if entry.disabled:
                disabled.append(server_id)  # not expanded: its variables may rightly be unset
                continue
            expansion = Expansion(environ, where=where, stored=stored, files=files)
            servers.append(resolve(server_id, entry, expansion, where, here))
        except MoonpoolError as error:  # also of the secret store
            if not leave_out:
                raise
            problem = str(error).removeprefix(where).lstrip(":, ")
            left_out[server_id] = ServerLeftOutError(server_id, problem, source)
    return McpConfig(source=source, servers=tuple(servers), disabled=tuple(disabled), left_out=left_out)


def _decode(text: bytes, source: str) -> object:
    if len(text) > CONFIG_BYTES_MAX:
        raise ConfigError(
            f"{source}: is larger than {CONFIG_BYTES_MAX // 1024} KiB; this is not a server configuration"
        )
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{source}: is not UTF-8 (byte {exc.start}); save it as UTF-8") from None
    if not decoded.strip():
        raise ConfigError(f'{source}: is empty; it needs an object such as {{"mcpServers": {{}}}}')
    try:
        return json.loads(without_comments(decoded), object_pairs_hook=_unique_pairs(source))
    except json.JSONDecodeError as exc:
        where = f"{exc.msg} at line {exc.lineno}, column {exc.colno}"
        remedy = next((told for begin, told in _REMEDIES.items() if exc.msg.startswith(begin)), "write JSON there")
        raise ConfigError(f"{source}: is not JSON: {where}; {remedy}") from None
    except RecursionError:
        raise ConfigError(f"{source}: is nested too deeply to be a server configuration") from None
    except ValueError as exc:  # a number of more digits than Python reads
        raise ConfigError(f"{source}: is not JSON: {exc}") from None


def _unique_pairs(source: str) -> Callable[[list[tuple[str, object]]], dict[str, object]]:
    def build(pairs: list[tuple[str, object]]) -> dict[str, object]:
        built = dict(pairs)
        if len(built) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ConfigError(f"{source}: the key {twice!r} is given twice in one object; remove one of them")
        return built

    return build


def _server_entries(document: object, source: str) -> dict[str, object]:
    if not isinstance(document, dict):
        raise ConfigError(f'{source}: must hold a JSON object with "mcpServers", not {kind_of(document)}')
    top = cast("dict[str, object]", document)
    for key in ("mcpServers", "servers"):
        if key not in top:
            continue
        entries = top[key]
        if not isinstance(entries, dict):
            raise ConfigError(f'{source}: "{key}" must be an object of servers by name, not {kind_of(entries)}')
        return cast("dict[str, object]", entries)
    near = {key: found[0] for key in top if (found := near_names([key], ["mcpServers", "servers"]))}
    hint = next((f'; "{clip(key, 60)}" should be "{meant}"' for key, meant in near.items()), "")
    raise ConfigError(f'{source}: has no "mcpServers" object{hint}')


def _check_server_id(server_id: str, source: str) -> None:
    if not server_id.strip() or len(server_id) > SERVER_ID_LENGTH_MAX or not server_id.isprintable():
        shown = ascii(server_id if len(server_id) <= 40 else server_id[:40] + "…")
        raise ConfigError(
            f"{source}: {shown} cannot be a server's name; use 1 to {SERVER_ID_LENGTH_MAX} printable characters"
        )


def _check_apart(server_ids: Iterable[str], source: str) -> None:
    """SECURITY: a person who approves a call reads its server's name, so no two may look the same (F-023)."""
    seen: dict[str, str] = {}
    for server_id in server_ids:
        other = seen.setdefault(looks_like(server_id), server_id)
        if other != server_id:
            raise ConfigError(
                f"{source}: servers {other!a} and {server_id!a} look the same to people; rename one of them"
            )
