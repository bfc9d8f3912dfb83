"""`moonpool tools`: what can be called, one line a tool, or one tool with its parameters."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

from . import index
from .outcomes import ImpossibleError, UsageError

_LINE_CHARS_MAX = 200
_EXAMPLES = {"string": '"..."', "number": "1", "boolean": "true"}


def tools(words: list[str]) -> str:
    """Do what `moonpool tools` with these words says and return what to print."""
    if len(words) > 1:
        raise UsageError("tools takes at most one SERVER or SERVER.TOOL")
    listed = index.servers()
    if not words:
        return "".join(_line(server, tool) for server in listed for tool in server["tools"])
    for server in listed:
        if words[0] in (server["id"], server["module"]):
            return "".join(_line(server, tool) for tool in server["tools"])
    found = index.find(words[0])
    for server in listed:
        for tool in server["tools"]:
            if (server["id"], tool["name"]) == found:
                return _definition(server, tool)
    raise UsageError(f"there is no {words[0]!r}{_near(words[0], listed)}; `moonpool tools` lists what there is")


def search(words: list[str]) -> str:
    """Do what `moonpool search` with these questions says and return what to print."""
    find: Any = import_module("client.catalog").search  # lies on the path, see bin/moonpool
    try:
        return "".join(f"{hit}\n" for hit in find(words))
    except LookupError as error:
        raise ImpossibleError(str(error)) from None
    except ValueError as error:
        raise UsageError(str(error)) from None


def _line(server: dict[str, Any], tool: dict[str, Any]) -> str:
    known: list[dict[str, Any]] = tool["parameters"] or []
    parts = [f"{one['name']}{'' if one['required'] else '?'}: {one['type']}" for one in known]
    if tool["parameters"] is None or len(parts) < tool["parameterCount"]:
        parts.append("...")
    head = f"{server['id']}.{tool['name']}({', '.join(parts)})"
    return _clip(f"{head}  {tool['summary']}".rstrip()) + "\n"


def _definition(server: dict[str, Any], tool: dict[str, Any]) -> str:
    name = f"{server['id']}.{tool['name']}"
    lines = [name, f"    {tool['summary']}" if tool["summary"] else "", ""]
    known: list[dict[str, Any]] | None = tool["parameters"]
    if known is None:
        lines.append("its parameters are not listed; `help` in Python shows them")
    elif not known:
        lines.append("no parameters")
    else:
        lines.append("parameters")
        lines += [_parameter(one) for one in known]
        if len(known) < tool["parameterCount"]:
            lines.append(f"    and {tool['parameterCount'] - len(known)} more")
    required = [one for one in known or [] if one["required"]]
    example = ", ".join(f'"{one["name"]}": {_EXAMPLES.get(one["type"], "...")}' for one in required)
    lines += ["", f"moonpool call {name} '{{{example}}}'"]
    return "\n".join(line for at, line in enumerate(lines) if line or lines[at - 1]) + "\n"


def _parameter(one: dict[str, Any]) -> str:
    text = f"    {one['name']}{'' if one['required'] else '?'}: {one['type']}"
    return f"{text}  {one['description']}".rstrip()


def _near(name: str, listed: list[dict[str, Any]]) -> str:
    names = [str(server["id"]) for server in listed]
    names += [f"{server['id']}.{tool['name']}" for server in listed for tool in server["tools"]]
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _clip(line: str) -> str:
    return line if len(line) <= _LINE_CHARS_MAX else line[: _LINE_CHARS_MAX - 3] + "..."
