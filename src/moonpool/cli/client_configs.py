"""Reads the servers in the configurations of Claude Desktop, Claude Code, VS Code and Cursor.

Entries are returned as they are in the file. Unusable ones are named with the reason, never repaired.

SECURITY: a file may belong to somebody else's project. What an entry's `moonpool` block grants itself (permissions,
trust, folders, questions to people) is not imported, and no project's server takes the name of one of the user's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from moonpool.configuration.jsonc import without_comments
from moonpool.configuration.servers import CONFIG_BYTES_MAX, parse_config
from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

_KEPT_IN_BLOCK: Final = frozenset({
    "ask", "deny", "timeout_s", "connect_timeout_s", "concurrency_max", "calls_per_minute", "calls_burst",
    "failures_max", "rest_s", "ping_s", "log_level", "returns", "does",
})  # fmt: skip
"""Members that only restrict. Of `rules`, those that do not allow are kept, too."""
_PLACEHOLDER: Final = "https://placeholder.invalid"
_INPUT: Final = "${input:"

Entry: TypeAlias = "dict[str, JsonValue]"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """One entry of one client. `problem` says why it cannot be used."""

    server_id: str
    entry: Entry
    source: str
    problem: str = ""
    not_taken: tuple[str, ...] = ()  # dropped keys of its `moonpool` block


def client_paths(environ: Mapping[str, str], here: Path) -> list[Path]:
    """The clients' configuration files on Linux and macOS: the user's own, then those of this folder."""
    home = Path(environ.get("HOME") or "/")
    xdg = environ.get("XDG_CONFIG_HOME", "")
    config = Path(xdg) if xdg.startswith("/") else home / ".config"
    support = home / "Library" / "Application Support"
    return [
        config / "Claude" / "claude_desktop_config.json",
        support / "Claude" / "claude_desktop_config.json",
        home / ".claude.json",
        config / "Code" / "User" / "mcp.json",
        support / "Code" / "User" / "mcp.json",
        home / ".cursor" / "mcp.json",
        here / ".mcp.json",
        here / ".vscode" / "mcp.json",
        here / ".cursor" / "mcp.json",
    ]


def read_servers(path: Path, environ: Mapping[str, str]) -> list[FoundServer]:
    """Every server in a client's file, including those of projects. Raises ConfigError for an invalid file."""
    document = _load(path)
    found: list[FoundServer] = []
    for source, entries in _sections(document, str(path)):
        for server_id, entry in entries.items():
            found.append(_judged(server_id, entry, source, environ))
    return found


def _load(path: Path) -> JsonObject:
    try:
        with path.open("rb") as file:
            text = file.read(64 * CONFIG_BYTES_MAX + 1).decode("utf-8-sig")  # ~/.claude.json also has histories
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8; save it as UTF-8") from None
    try:
        document: JsonValue = json.loads(without_comments(text) or "{}")
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"{path}: is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: is not a JSON object")
    return document


def _sections(document: JsonObject, path: str) -> Iterator[tuple[str, Entry]]:
    """Maps of servers in a document: its own, and those of Claude Code's projects."""
    for key in ("mcpServers", "servers"):
        if isinstance(entries := document.get(key), dict):
            yield path, entries
            break
    projects = document.get("projects")
    for project, state in projects.items() if isinstance(projects, dict) else ():
        entries = state.get("mcpServers") if isinstance(state, dict) else None
        if isinstance(entries, dict):
            yield f"{path}, project {project}", entries


def _judged(server_id: str, entry: JsonValue, source: str, environ: Mapping[str, str]) -> FoundServer:
    if not isinstance(entry, dict):
        return FoundServer(server_id=server_id, entry={}, source=source, problem="it is not an object")
    if is_moonpool(entry):
        return FoundServer(server_id=server_id, entry=entry, source=source, problem="it is Moonpool itself")
    if _INPUT in json.dumps(entry):
        problem = "it asks for ${input:…} when it starts; put the value into a variable and write ${NAME}"
        return FoundServer(server_id=server_id, entry=entry, source=source, problem=problem)
    text = json.dumps({"mcpServers": {server_id: entry}}).encode()
    try:
        parse_config(
            text, source="", environ=_Defaulting(environ), stored=lambda _: "stored", files=lambda _: "/in/a/file"
        )
    except ConfigError as error:
        _, _, problem = str(error).partition(f"server {server_id!r}: ")
        return FoundServer(server_id=server_id, entry=entry, source=source, problem=problem or str(error).lstrip(": "))
    entry, not_taken = _without_permissions(entry)
    return FoundServer(server_id=server_id, entry=entry, source=source, not_taken=not_taken)


def _without_permissions(entry: Entry) -> tuple[Entry, tuple[str, ...]]:
    """An entry without the grants in its block, and their names."""
    block = cast("Entry", entry.get("moonpool") or {})
    kept = {key: value for key, value in block.items() if key in _KEPT_IN_BLOCK or value is False}
    rules = cast("list[Entry]", block.get("rules") or [])
    if stricter := [rule for rule in rules if rule.get("verdict") != "allow"]:
        kept["rules"] = cast("JsonValue", stricter)
    not_taken = tuple(key for key, value in block.items() if kept.get(key) != value)
    others = {key: value for key, value in entry.items() if key != "moonpool"}
    return {**others, **({"moonpool": kept} if kept else {})}, not_taken


def is_moonpool(entry: Entry) -> bool:
    """Whether an entry starts Moonpool's own MCP server, which must not become its own upstream."""
    command, args = entry.get("command"), entry.get("args")
    words = [command, *(cast("list[object]", args) if isinstance(args, list) else [])]
    names = [Path(word).name.partition("==")[0] for word in words if isinstance(word, str)]
    return "moonpool" in names and "mcp" in names[names.index("moonpool") :]


class _Defaulting(Mapping[str, str]):
    """An environment in which every variable is set, so that an entry is checked regardless of current variables."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        return self._environ.get(name) or _PLACEHOLDER

    def __iter__(self) -> Iterator[str]:
        return iter(self._environ)

    def __len__(self) -> int:
        return len(self._environ)
