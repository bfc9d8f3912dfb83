"""Which MCP servers there are: the ecosystem's `mcpServers` JSON, read once into frozen values.

The file is the user's own client configuration or one written for Moonpool. Three dialects are read: Claude Desktop,
Claude Code and VS Code (`servers` instead of `mcpServers`). Top-level keys of the client are ignored; an unknown key
inside a server entry or its `moonpool` block is refused with the nearest known name, because a misspelt
`trusted` or `headers` would otherwise silently mean something else. Keys that other clients document and that change
nothing about how a server is reached (`IGNORED_KEYS`) are accepted and ignored.

SECURITY: `autoApprove` and `alwaysAllow` of other clients are ignored on purpose; only the `moonpool` block gives
leave.
SECURITY: expanded values live here and in the connection, nowhere else; `repr` shows none of them.
Expansion and the rule for what counts as secret: `expansion`. Connections: `upstreams`.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec

from moonpool.broker.expansion import Expansion, conceal, secrets_in
from moonpool.broker.oauth.settings import OAUTH_KEYS, OAuthSettings
from moonpool.broker.roots import root_path
from moonpool.core.errors import ConfigError
from moonpool.core.json import JsonValue, digest_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from moonpool.broker.expansion import SecretSource

CONFIG_BYTES_MAX: Final = 1024 * 1024
SERVER_COUNT_MAX: Final = 256
SERVER_ID_LENGTH_MAX: Final = 128
CALL_TIMEOUT_S_DEFAULT: Final = 60.0
CONNECT_TIMEOUT_S_DEFAULT: Final = 30.0
CONCURRENCY_MAX_DEFAULT: Final = 16

TransportKind: TypeAlias = Literal["stdio", "http", "sse", "auto"]
"""`auto` is a URL without a `type`: both HTTP transports are tried, the URL only orders the attempts (X-12)."""
VerdictName: TypeAlias = Literal["allow", "ask", "deny"]

_KINDS: Final[dict[str, TransportKind]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_KNOWN_KEYS: Final = (
    "command", "args", "env", "cwd", "type", "transport", "url", "headers", "oauth", "disabled", "moonpool",
)  # fmt: skip
# fmt: off
IGNORED_KEYS: Final = frozenset({
    "alwaysAllow", "autoApprove", "autostart", "category", "description", "dev", "disabledTools", "gallery", "homepage",
    "icon", "icons", "label", "name", "note", "notes", "tags", "timeout", "title", "tools", "version", "$comment",
})
# fmt: on
_REFUSED_KEYS: Final = {
    "envFile": 'put the values into "env", or set the variables and write ${NAME}',
    "serverUrl": 'write "url"',
    "httpUrl": 'write "url" and "type": "http"',
}


class _Block(msgspec.Struct, forbid_unknown_fields=True, rename=None):
    """The `moonpool` block as JSON. What it means stands in `ServerConfig`."""

    trusted: bool = False
    timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    connect_timeout_s: float = CONNECT_TIMEOUT_S_DEFAULT
    concurrency_max: int = CONCURRENCY_MAX_DEFAULT
    idempotent: list[str] = []
    rules: list[_Rule] = []
    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []
    instructions: bool = True
    roots: list[str] = []
    ping_s: float = 0.0
    returns: list[Literal["private", "untrusted"]] = []
    does: list[Literal["sends_out", "spends", "destroys"]] = []


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    tool: str
    verdict: VerdictName


class _Entry(msgspec.Struct):
    """One server entry as JSON; unknown keys were refused before."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, Any] = {}
    cwd: str | None = None
    type: str | None = None
    transport: str | None = None
    url: str | None = None
    headers: dict[str, Any] = {}
    oauth: dict[str, Any] = {}
    disabled: bool = False
    moonpool: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """What policy says about the tools of one server whose name matches the glob `tool`."""

    tool: str
    verdict: VerdictName


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ServerConfig:
    """One configured server, variables expanded."""

    server_id: str
    transport: TransportKind
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    oauth: OAuthSettings = field(default_factory=OAuthSettings)
    trusted: bool = False  # the server's annotations may be believed (D-010)
    timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    connect_timeout_s: float = CONNECT_TIMEOUT_S_DEFAULT
    concurrency_max: int = CONCURRENCY_MAX_DEFAULT
    idempotent: tuple[str, ...] = ()  # globs of tools that may be called again after a lost answer
    rules: tuple[ToolRule, ...] = ()
    instructions: bool = True  # False: the server's own instructions are not shown to a model
    ping_s: float = 0.0  # how often an idle server is asked for a sign of life; 0: never
    returns: tuple[str, ...] = ()  # labels of all its tools: what they return
    does: tuple[str, ...] = ()  # and what calling them does
    roots: tuple[str, ...] = ()  # absolute folders the server may ask for; none: roots are not declared
    secrets: frozenset[str] = frozenset()

    @property
    def address(self) -> str:
        """The command or the URL, for messages; secrets are blanked and a URL loses its query."""
        return conceal(self.command or self.url.partition("?")[0], self.secrets)

    def __repr__(self) -> str:
        return f"ServerConfig({self.server_id!r}, {self.transport}, {self.address!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpConfig:
    """All servers of one file, in its order. Servers marked `disabled` are only named."""

    source: str
    servers: tuple[ServerConfig, ...] = ()
    disabled: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(server.server_id for server in self.servers)

    @property
    def secrets(self) -> frozenset[str]:
        return frozenset[str]().union(*(server.secrets for server in self.servers))

    def find(self, server_id: str) -> ServerConfig | None:
        return next((server for server in self.servers if server.server_id == server_id), None)


def resolved_key(server: ServerConfig) -> str:
    """`sha256:…` over everything that decides what the server is; cached manifests are kept under it."""
    resolved: dict[str, JsonValue] = {
        "server_id": server.server_id,
        "transport": server.transport,
        "command": server.command,
        "args": list(server.args),
        "env": dict(server.env),
        "cwd": server.cwd,
        "url": server.url,
        "headers": dict(server.headers),
    }
    if server.roots:  # servers show other tools to a client that has roots
        resolved["roots"] = list(server.roots)
    return digest_json(resolved)


def load_config(path: Path, environ: Mapping[str, str], *, stored: SecretSource | None = None) -> McpConfig:
    """Read and parse `path`. Raises ConfigError in one sentence that names the file and the remedy.

    `stored` gives the values of `${secret:NAME}` and raises what the secret store raises.
    """
    try:
        with path.open("rb") as file:
            text = file.read(CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; pass --config FILE or run `moonpool init`") from None
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror or exc}") from None
    return parse_config(text, source=str(path), environ=environ, stored=stored)


def parse_config(
    text: bytes, *, source: str, environ: Mapping[str, str], stored: SecretSource | None = None
) -> McpConfig:
    """Parse the bytes of a configuration file; `source` names it in messages."""
    entries = _server_entries(_decode(text, source), source)
    if len(entries) > SERVER_COUNT_MAX:
        raise ConfigError(f"{source}: {len(entries)} servers are configured; at most {SERVER_COUNT_MAX} are served")
    servers: list[ServerConfig] = []
    disabled: list[str] = []
    for server_id, raw in entries.items():
        _check_server_id(server_id, source)
        where = f"{source}: server {server_id!r}"
        entry = _entry(raw, where)
        if entry.disabled:
            disabled.append(server_id)  # not expanded: its variables may rightly be unset
        else:
            servers.append(_resolve(server_id, entry, Expansion(environ, where=where, stored=stored), where))
    return McpConfig(source=source, servers=tuple(servers), disabled=tuple(disabled))


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
        return json.loads(decoded, object_pairs_hook=_unique_pairs(source))
    except json.JSONDecodeError as exc:
        raise ConfigError(f"{source}: is not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}") from None
    except RecursionError:
        raise ConfigError(f"{source}: is nested too deeply to be a server configuration") from None


def _unique_pairs(source: str) -> Callable[[list[tuple[str, object]]], dict[str, object]]:
    def build(pairs: list[tuple[str, object]]) -> dict[str, object]:
        built = dict(pairs)
        if len(built) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ConfigError(f"{source}: the key {twice!r} stands twice in one object; remove one of them")
        return built

    return build


def _server_entries(document: object, source: str) -> dict[str, object]:
    if not isinstance(document, dict):
        raise ConfigError(f'{source}: must hold a JSON object with "mcpServers", not {_kind(document)}')
    top = cast("dict[str, object]", document)
    for key in ("mcpServers", "servers"):
        if key not in top:
            continue
        entries = top[key]
        if not isinstance(entries, dict):
            raise ConfigError(f'{source}: "{key}" must be an object of servers by name, not {_kind(entries)}')
        return cast("dict[str, object]", entries)
    raise ConfigError(f'{source}: has no "mcpServers" object{_did_you_mean(top, ["mcpServers", "servers"])}')


def _check_server_id(server_id: str, source: str) -> None:
    if not server_id.strip() or len(server_id) > SERVER_ID_LENGTH_MAX or not server_id.isprintable():
        shown = ascii(server_id if len(server_id) <= 40 else server_id[:40] + "…")
        raise ConfigError(
            f"{source}: {shown} cannot be a server's name; use 1 to {SERVER_ID_LENGTH_MAX} printable characters"
        )


def _entry(raw: object, where: str) -> _Entry:
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}: must be an object, not {_kind(raw)}")
    given = cast("dict[str, object]", raw)
    for key in given:
        if key in _REFUSED_KEYS:
            raise ConfigError(f'{where}: "{key}" is not supported; {_REFUSED_KEYS[key]}')
        if key not in _KNOWN_KEYS and key not in IGNORED_KEYS:
            hint = _did_you_mean([key], _KNOWN_KEYS, suggest_known=True)
            raise ConfigError(f'{where}: unknown key "{key}"{hint or "; known are " + ", ".join(_KNOWN_KEYS)}')
    known = {key: value for key, value in given.items() if key in _KNOWN_KEYS}
    return _convert(known, _Entry, where)


def _resolve(server_id: str, entry: _Entry, expansion: Expansion, where: str) -> ServerConfig:
    kind = _transport_kind(entry, where)
    block = _block(entry.moonpool, where)
    command = _clean(expansion.expand(entry.command or "", key="command"), where, "command")
    args = tuple(
        _clean(expansion.expand(arg, key=f"args[{i}]"), where, f"args[{i}]") for i, arg in enumerate(entry.args)
    )
    env = _expand_values(entry.env, expansion, where, "env")
    headers = _expand_values(entry.headers, expansion, where, "headers")
    url = _clean(expansion.expand(entry.url or "", key="url").strip(), where, "url", lines=False)
    _check_url(url, where)
    if entry.command is not None and not command.strip():
        raise ConfigError(f'{where}: "command" is empty; name the program that starts the server')
    oauth = _oauth(entry, expansion, where)
    named = [*expansion.used.items(), *env.items(), *headers.items(), ("client_secret", oauth.client_secret)]
    secrets = {secret for name, value in [*named, ("url", url)] for secret in secrets_in(name, value)}
    secrets |= {value.strip() for value in expansion.secrets if value.strip()}
    return ServerConfig(
        server_id=server_id,
        transport=kind,
        command=command,
        args=args,
        env=env,
        cwd=expansion.expand(entry.cwd, key="cwd") if entry.cwd else None,
        url=url,
        headers=headers,
        oauth=oauth,
        trusted=block.trusted,
        timeout_s=block.timeout_s,
        connect_timeout_s=block.connect_timeout_s,
        concurrency_max=block.concurrency_max,
        idempotent=tuple(block.idempotent),
        rules=_rules(block),
        instructions=block.instructions,
        ping_s=block.ping_s,
        returns=tuple(block.returns),
        does=tuple(block.does),
        roots=tuple(
            root_path(expansion.expand(root, key=f"roots[{i}]"), where, f"roots[{i}]")
            for i, root in enumerate(block.roots)
        ),
        secrets=frozenset(secrets),
    )


def _oauth(entry: _Entry, expansion: Expansion, where: str) -> OAuthSettings:
    for key in entry.oauth:
        if key not in OAUTH_KEYS:
            hint = _did_you_mean([key], OAUTH_KEYS, suggest_known=True)
            raise ConfigError(f'{where}, "oauth": unknown key "{key}"{hint or "; known are " + ", ".join(OAUTH_KEYS)}')
    if entry.oauth and entry.url is None:
        raise ConfigError(f'{where}: "oauth" is for servers with a "url"')
    settings = OAuthSettings(**_expand_values(entry.oauth, expansion, where, "oauth"))
    if problem := settings.problem():
        raise ConfigError(f'{where}, "oauth": {problem}')
    return settings


def _transport_kind(entry: _Entry, where: str) -> TransportKind:
    """Explicit `type` wins; without it the presence of `command` or `url` decides."""
    if entry.command is not None and entry.url is not None:
        raise ConfigError(f'{where}: has both "command" and "url"; keep the one that reaches it')
    if entry.command is None and entry.url is None:
        raise ConfigError(f'{where}: has neither "command" (a local server) nor "url" (a remote one)')
    given = entry.type if entry.type is not None else entry.transport
    if given is None:
        return "stdio" if entry.command is not None else "auto"
    kind = _KINDS.get(given)
    if kind is None:
        raise ConfigError(f'{where}: "type" {given!r} is unknown; use stdio, http or sse')
    if (kind == "stdio") != (entry.command is not None):
        needed = '"command"' if kind == "stdio" else '"url"'
        raise ConfigError(f'{where}: "type" {given!r} needs {needed}')
    return kind


def _block(raw: dict[str, Any], where: str) -> _Block:
    inside = f'{where}, "moonpool"'
    known = _Block.__struct_fields__
    for key in raw:
        if key not in known:
            hint = _did_you_mean([key], known, suggest_known=True)
            raise ConfigError(f'{inside}: unknown key "{key}"{hint or "; known are " + ", ".join(known)}')
    block = _convert(raw, _Block, inside)
    for key, value in (("timeout_s", block.timeout_s), ("connect_timeout_s", block.connect_timeout_s)):
        if not 0 < value <= 86_400:
            raise ConfigError(f'{inside}: "{key}" must be above 0 and at most 86400 seconds, got {value:g}')
    if block.ping_s != 0 and not 1 <= block.ping_s <= 86_400:
        raise ConfigError(f'{inside}: "ping_s" must be 0 (never) or from 1 to 86400 seconds, got {block.ping_s:g}')
    if not 1 <= block.concurrency_max <= 1024:
        raise ConfigError(f'{inside}: "concurrency_max" must be from 1 to 1024, got {block.concurrency_max}')
    return block


def _rules(block: _Block) -> tuple[ToolRule, ...]:
    """`rules` first, then the short lists; the order has no meaning, because the strictest match wins."""
    listed = [ToolRule(tool=rule.tool, verdict=rule.verdict) for rule in block.rules]
    shorts: tuple[tuple[VerdictName, list[str]], ...] = (
        ("allow", block.allow),
        ("ask", block.ask),
        ("deny", block.deny),
    )
    return (*listed, *(ToolRule(tool=glob, verdict=verdict) for verdict, globs in shorts for glob in globs))


def _expand_values(values: dict[str, Any], expansion: Expansion, where: str, key: str) -> dict[str, str]:
    expanded: dict[str, str] = {}
    for name, value in values.items():
        inner = f"{key}.{name}"
        if not isinstance(value, str):
            raise ConfigError(f'{where}: "{inner}" must be a string, not {_kind(value)}; put it in quotes')
        if not name or "=" in name or "\0" in name or not name.isascii():
            raise ConfigError(f'{where}: {name!r} cannot be a name in "{key}"')
        expanded[name] = _clean(expansion.expand(value, key=inner), where, inner, lines=key == "env")
    return expanded


def _clean(value: str, where: str, key: str, *, lines: bool = True) -> str:
    broken = "\0" in value or (not lines and ("\n" in value or "\r" in value))
    if broken or value.encode(errors="replace").decode() != value:
        raise ConfigError(f'{where}: "{key}" holds NUL, half a surrogate pair or a line break; remove it')
    return value


def _check_url(url: str, where: str) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f'{where}: "url" must be an http:// or https:// address with a host')


def _convert(raw: dict[str, Any], kind: type[Any], where: str) -> Any:
    try:
        return msgspec.convert(raw, type=kind)
    except msgspec.ValidationError as exc:
        problem, _, place = str(exc).partition(" - at ")
        key = place.strip("`").removeprefix("$").removeprefix(".")
        raise ConfigError(f'{where}: "{key}": {problem.replace("`", "")}' if key else f"{where}: {problem}") from None


def _did_you_mean(given: Any, known: Any, *, suggest_known: bool = False) -> str:
    """`; did you mean …` when something given is close to something known, else nothing."""
    folded = {str(name).lower().replace("_", "").replace("-", ""): str(name) for name in known}
    for name in given:
        near = difflib.get_close_matches(str(name).lower().replace("_", "").replace("-", ""), folded, n=1, cutoff=0.7)
        if near:
            return (
                f'; did you mean "{folded[near[0]]}"?' if suggest_known else f'; "{name}" should be "{folded[near[0]]}"'
            )
    return ""


def _kind(value: object) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a string", "bool": "true or false", "NoneType": "null"}
    return names.get(type(value).__name__, "a number")
