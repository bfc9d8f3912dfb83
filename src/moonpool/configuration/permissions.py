"""Leave for tools, written into the entry of their server: what `moonpool allow`, `deny` and `init` do. Pure.

SECURITY: leave stands in the entry that says how the server is reached, so it holds for what that entry names and never
for another server of the same name in another file. What one tool may is said in one place: a new word about it takes
the place of an older one that names it in the same way. Globs that cover it, and rules of policy files, stay: the
strictest wins, and `moonpool allow` says so.

How text is changed without losing comments: `jsonc`. What the block means: docs/how-to/configure-servers.md.
See docs/decisions/0045-leave-stands-in-the-entry.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from moonpool.configuration.condition_entry import read_condition
from moonpool.configuration.jsonc import JsonText, JsonTextError
from moonpool.configuration.servers import CONFIG_BYTES_MAX, parse_config
from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.core.json import JsonObject, JsonValue

Permission: TypeAlias = Literal["allow", "deny"]
BLOCK: Final = "moonpool"
_REPLACED: Final = {
    ("allow", False): ("ask", "deny"),
    ("allow", True): ("allow", "ask", "deny"),  # else the conditions would mean nothing
    ("deny", False): ("allow", "ask"),
    ("deny", True): (),  # SECURITY: a denial loosens nothing; what was denied before stays so with other arguments
}
"""What a new word takes the place of, by itself and whether it has conditions."""


def with_permission(
    content: bytes,
    source: str,
    server_id: str,
    permission: Permission,
    globs: Sequence[str],
    when: Sequence[JsonObject] = (),
) -> bytes:
    """The configuration in which these tools of a server are allowed or denied; `when`: with such arguments only.

    Raises ConfigError, then nothing is to be written.
    """

    def change(text: JsonText, block: Sequence[str]) -> None:
        for verdict in _REPLACED[permission, bool(when)]:
            _forget(text, block, frozenset(globs), verdict)
        path = [*block, "rules" if when else permission]
        wanted: list[JsonValue] = [
            {"tool": glob, "verdict": permission, "when": [*when]} if when else glob for glob in globs
        ]
        there = {*map(_exactly, _items(text, path))}
        text.append(path, *(one for one in wanted if _exactly(one) not in there))

    return _changed(content, source, server_id, change)


def with_trust(content: bytes, source: str, server_id: str) -> bytes:
    """The configuration in which this server's own annotations are believed. Raises ConfigError."""
    return _changed(content, source, server_id, lambda text, block: text.put([*block, "trusted"], value=True))


def with_servers(content: bytes, source: str, entries: JsonObject) -> bytes:
    """The configuration with these servers more. Raises ConfigError."""
    try:
        text = JsonText(content.decode("utf-8-sig"))
        for server_id, entry in entries.items():
            text.put([_servers_key(text), server_id], entry)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: cannot be read ({error}); correct it first") from None
    return _encoded(content, source, text)


def _changed(content: bytes, source: str, server_id: str, change: Callable[[JsonText, Sequence[str]], None]) -> bytes:
    text = _read(content, source)
    block = [_servers_key(text), server_id, BLOCK]
    servers = text.value.get(block[0])
    if not isinstance(servers, dict) or server_id not in servers:
        known = ", ".join(sorted(servers)) if isinstance(servers, dict) else ""
        raise ConfigError(f"{source}: there is no server {server_id!r}; there are {known or 'none'}")
    try:
        change(text, block)
    except JsonTextError as error:
        raise ConfigError(f"{source}: server {server_id!r}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{source}: is nested too deeply to be changed here; edit the file yourself") from None
    return _encoded(content, source, text)


def _read(content: bytes, source: str) -> JsonText:
    """SECURITY: what is not a configuration that can be read is never written to; the error names the line."""
    if len(content) > CONFIG_BYTES_MAX:
        raise ConfigError(f"{source}: is larger than {CONFIG_BYTES_MAX // 1024} KiB")
    parse_config(content, source=source, environ={}, leave_out=True)
    return JsonText(content.decode("utf-8-sig"))


def _encoded(content: bytes, source: str, text: JsonText) -> bytes:
    """SECURITY: what could not be read again is not written. A server chooses how many tools it has."""
    encoded = (b"\xef\xbb\xbf" if content.startswith(b"\xef\xbb\xbf") else b"") + text.text.encode()
    parse_config(encoded, source=source, environ={}, leave_out=True)
    return encoded


def _servers_key(text: JsonText) -> str:
    return "servers" if "servers" in text.value and "mcpServers" not in text.value else "mcpServers"


def _forget(text: JsonText, block: Sequence[str], globs: frozenset[str], verdict: str) -> None:
    """Take back what is said about exactly these globs without conditions."""
    for glob in _items(text, [*block, verdict]):
        if isinstance(glob, str) and glob in globs:
            text.remove([*block, verdict], glob)
    for rule in _items(text, [*block, "rules"]):
        plain = isinstance(rule, dict) and rule.get("tool") in globs and not rule.get("when")
        if plain and cast("JsonObject", rule).get("verdict") == verdict:
            text.remove([*block, "rules"], rule)


def _exactly(value: JsonValue) -> str:
    """`1`, `1.0` and `true` are equal in Python, and three values to a condition."""
    return json.dumps(value, sort_keys=True)


def _items(text: JsonText, path: Sequence[str]) -> list[JsonValue]:
    value: JsonValue = text.value
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return list(cast("list[JsonValue]", value)) if isinstance(value, list) else []


def condition_of(text: str) -> JsonObject:
    """A condition from `/repo=acme/*`, or from JSON like `{"at": "/path", "below": "/srv"}`. Raises ConfigError."""
    at, equals, glob = text.partition("=")
    if text.startswith("{"):
        try:
            raw: JsonValue = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"--when {text[:80]!r} is not JSON: {error}") from None
    elif equals and at.startswith("/"):
        raw = {"at": at, "glob": glob}
    else:
        example = '{"at": "/path", "below": "/srv/project"}'
        raise ConfigError(
            f"--when {text[:80]!r} is not a condition; give POINTER=GLOB, e.g. /repo=acme/*, or {example}"
        )
    read_condition(raw, f"--when {text[:80]!r}")
    return cast("JsonObject", raw)
