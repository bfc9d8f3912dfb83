"""Parts of helpful error messages: clipped strings, near names, parameter lists. Pure.

Everything that comes in here is untrusted and may be large; everything that goes out is bounded.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Final

from moonpool.core.hidden_characters import all_seen, is_seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.core.manifest import Manifest, ToolDefinition

_CANDIDATE_COUNT_MAX: Final = 500
_NAME_LENGTH_MAX: Final = 128
_COMPARED_MAX: Final = 400_000  # characters of one name times characters of the other
_OWN_TOOLS_MAX: Final = 20
_PARAMETER_COUNT_MAX: Final = 60
_TYPE_LENGTH_MAX: Final = 60
SAID_LENGTH_MAX: Final = 2000
_LOOKED_AT_CHARS: Final = 32 * 1024


def counted(count: int, noun: str) -> str:
    """`1 tool`, `2,000 tools`. `noun` is one that takes an s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def clip(text: str, length_max: int) -> str:
    """`text`, or its beginning and end with the number of characters left out between them."""
    if len(text) <= length_max:
        return text
    tail = length_max // 4
    head = max(0, length_max - tail - 40)
    return f"{text[:head]} …[{len(text) - head - tail} characters left out]… {text[len(text) - tail :]}"


def near_names(given: Iterable[str], known: Sequence[str]) -> list[str]:
    """Known names that look like one of the given ones, best first; letter case and separators do not count.

    SECURITY: comparing takes as long as both names are long together, and neither are ours: so much is compared.
    """
    wanted = [_fold(name) for name in list(given)[:3]]
    room = _COMPARED_MAX
    folded: dict[str, str] = {}
    for name in known[:_CANDIDATE_COUNT_MAX]:
        one = _fold(name)
        room -= (len(one) + 1) * sum(map(len, wanted))
        if room < 0:
            break
        folded.setdefault(one, name)
    near: list[str] = []
    for name in wanted:
        near += [folded[match] for match in difflib.get_close_matches(name, folded, n=3, cutoff=0.6)]
    return list(dict.fromkeys(near))


def unknown_tool(server_id: str, tool: str, manifest: Manifest, *, near: bool = True) -> str:
    """The sentence for a call that does not resolve: what is there instead, across servers, unless not `near`."""
    asked = f"{clip(server_id, _NAME_LENGTH_MAX)}.{clip(tool, _NAME_LENGTH_MAX)}"
    if not near:
        return f"there is no tool {asked}; search the catalog instead of guessing"
    names: dict[str, str] = {}  # of this server first, then of the others
    for server in sorted(manifest.servers, key=lambda server: server.server_id != server_id):
        for definition in server.tools:
            if len(names) >= _CANDIDATE_COUNT_MAX:
                break
            names.setdefault(definition.name, f"{server.server_id}.{definition.name}")
    alike = [names[name] for name in near_names([tool], list(names))]
    if alike:
        return f"there is no tool {asked}; did you mean {' or '.join(alike[:3])}?"
    if server_id not in {server.server_id for server in manifest.servers}:
        return f"there is no tool {asked}; {_servers_hint(server_id, manifest)}"
    own = [
        definition.name for server in manifest.servers if server.server_id == server_id for definition in server.tools
    ]
    more = f" and {len(own) - _OWN_TOOLS_MAX} more" if len(own) > _OWN_TOOLS_MAX else ""
    has = f"has {clip(', '.join(own[:_OWN_TOOLS_MAX]), 400)}{more}" if own else "has no tools"
    return f"there is no tool {asked}; server {clip(server_id, _NAME_LENGTH_MAX)} {has}"


def offered_tool(text: str, manifest: Manifest) -> ToolDefinition | None:
    """The first tool that a sentence of `unknown_tool` offers."""
    _, mark, offered = text.partition("did you mean ")
    if not mark:
        return None
    for tool in manifest.tools():
        if offered.startswith((f"{tool.server_id}.{tool.name}?", f"{tool.server_id}.{tool.name} or ")):
            return tool
    return None


def offered_server(text: str, manifest: Manifest) -> str:
    """The id of the server that a sentence of `unknown_server` offers; empty where it offers none."""
    _, _, offered = text.partition("did you mean server ")
    return next((server.server_id for server in manifest.servers if offered == f"{server.server_id}?"), "")


def unknown_server(name: str, manifest: Manifest, *, near: bool = True) -> str:
    """The sentence for a server that is not there: those that are, the nearest if `near`."""
    return f"there is no server {clip(name, _NAME_LENGTH_MAX)!r}; {_servers_hint(name, manifest, near=near)}"


def _servers_hint(name: str, manifest: Manifest, *, near: bool = True) -> str:
    if not manifest.servers:
        return "no server is configured"
    ids = sorted(server.server_id for server in manifest.servers)
    close = near_names([name], ids) if near else []
    return f"did you mean server {close[0]}?" if close else f"servers are {clip(', '.join(ids), 400)}"


def undeclared_parameters(name: str, given: Sequence[str], schema: JsonValue, *, near: bool = True) -> str:
    """The sentence for parameters that a schema lets pass, but does not know."""
    alike = near_names(given, properties_of(schema, ())) if near else []
    shown = ", ".join(repr(clip(one, 64)) for one in given[:5])
    hint = f"; did you mean {alike[0]!r}?" if alike else "."
    return f"{name} declares no parameter {shown}{hint} {parameter_list(name, schema)}"


def parameter_list(name: str, schema: JsonValue) -> str:
    """`Valid parameters for NAME (* = required): a*: string, b: integer`."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not properties:
        return f"{name} declares no parameters"
    required = schema.get("required") if isinstance(schema, dict) else None
    needed = {item for item in required if isinstance(item, str)} if isinstance(required, list) else set[str]()
    shown = sorted(properties, key=lambda key: key not in needed)[:_PARAMETER_COUNT_MAX]  # required ones first
    parts = [f"{clip(key, 64)}{'*' if key in needed else ''}: {_type_name(properties[key])}" for key in shown]
    if len(properties) > len(shown):
        parts.append(f"and {len(properties) - len(shown)} more")
    return f"Valid parameters for {name} (* = required): {', '.join(parts)}"


def properties_of(schema: JsonValue, path: Iterable[str | int]) -> list[str]:
    """Names of the properties declared at `path` inside `schema`; none when the path leads elsewhere."""
    root = schema
    for step in path:
        if step == "$ref" and isinstance(schema, dict):
            schema = _resolved(root, schema)
        elif isinstance(schema, dict) and isinstance(step, str):
            schema = schema.get(step)
        elif isinstance(schema, list) and isinstance(step, int) and step < len(schema):
            schema = schema[step]
        else:
            return []
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def _resolved(root: JsonValue, holder: JsonObject) -> JsonValue:
    """What a local reference (`#/$defs/Name`) points at."""
    reference = holder.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    return target


def _type_name(schema: JsonValue, depth: int = 0) -> str:
    if not isinstance(schema, dict) or depth > 3:
        return "any"
    kind, choices = schema.get("type"), schema.get("enum")
    if isinstance(choices, list):
        return clip(" | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices[:12]), _TYPE_LENGTH_MAX)
    if isinstance(reference := schema.get("$ref"), str):
        return clip(reference.rpartition("/")[2], _TYPE_LENGTH_MAX)
    for word in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(word), list):
            return clip(" | ".join(_type_name(option, depth + 1) for option in options[:6]), _TYPE_LENGTH_MAX)
    if kind == "array" and "items" in schema:
        return f"array of {_type_name(schema['items'], depth + 1)}"
    if isinstance(kind, list):
        return clip(" | ".join(str(item) for item in kind[:6]), _TYPE_LENGTH_MAX)
    return clip(kind, _TYPE_LENGTH_MAX) if isinstance(kind, str) else "any"


def _fold(name: str) -> str:
    return "".join(char for char in name[:_NAME_LENGTH_MAX].lower() if char.isalnum())


def storable(text: str) -> str:
    """`text` without half surrogate pairs, which neither UTF-8 nor the audit trail can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """`text` with every character escaped that a terminal would act on or hide (controls, bidirectional marks)."""
    if all_seen(text):
        return text
    return "".join(char if is_seen(char) or char == "\n" else _escape(char) for char in text)


def printable_json(text: str) -> str:
    """JSON with such characters escaped as JSON escapes them, so that it means the same."""
    if all_seen(text):
        return text
    return "".join(char if is_seen(char) or char == "\n" else json.dumps(char)[1:-1] for char in text)


def on_one_line(text: str) -> str:
    """`printable`, and no line of its own for whoever wrote it."""
    return printable(text).replace("\n", "\\n")


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def ends_of(text: str) -> str:
    """`text`, or its two ends: looking at each character of a whole message takes seconds."""
    if len(text) <= 2 * _LOOKED_AT_CHARS:
        return text
    return f"{text[:_LOOKED_AT_CHARS]} … {text[-_LOOKED_AT_CHARS:]}"


def said(text: str, length_max: int = SAID_LENGTH_MAX) -> str:
    """What a server said, fit for a message: on one line, without what nobody sees, capped in the middle.

    SECURITY: characters that take room and are not seen would move what follows to the beginning of a line.
    """
    text = ends_of(text)
    line = " ".join("".join(char if is_seen(char) else " " for char in text).split())
    if len(line) <= length_max:
        return line
    half = length_max // 2
    return f"{line[:half]} … {line[-half:]}"
