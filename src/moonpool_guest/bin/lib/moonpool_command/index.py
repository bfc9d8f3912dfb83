"""The list of tools that the host shows with the wrappers (`index.json`, made by `moonpool.wrappers.tool_index`)."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Any

from .outcomes import ImpossibleError, UsageError

_PATH = "/wrappers/current/index.json"


def servers() -> list[dict[str, Any]]:
    """The servers with their tools. Raises ImpossibleError where there are none to see."""
    try:
        with open(_PATH, encoding="utf-8") as file:
            listed: list[dict[str, Any]] = json.load(file)["servers"]
    except FileNotFoundError:
        raise ImpossibleError("no tools are shown in this sandbox") from None
    except (OSError, ValueError, LookupError) as error:
        raise ImpossibleError(f"the list of tools cannot be read: {error}") from None
    return listed


def split(name: str) -> tuple[str, str]:
    """`SERVER.TOOL` at its first dot, or the only tool of this name. Raises UsageError."""
    server, dot, tool = name.partition(".")
    if server and dot and tool:
        return server, tool
    try:
        paths = [(str(one["id"]), str(tool["name"])) for one in servers() for tool in one["tools"]]
    except ImpossibleError:
        paths = []
    same = [path for path in paths if path[1] == name]
    if len(same) == 1:
        return same[0]
    near = same or [path for path in paths if path[1] in get_close_matches(name, [tool for _, tool in paths], n=3)]
    hint = f"did you mean {' or '.join(map('.'.join, near[:3]))}?" if near else "`moonpool tools` lists them"
    raise UsageError(f"{name!r} is no SERVER.TOOL; {hint}")


def find(name: str) -> tuple[str, str] | None:
    """The server and tool that `name` means, if it means any: by their own names, else by those of the wrappers.

    Either may have dots. Of servers whose names begin alike the longer one is meant, as in `moonpool allow`: a server
    cannot take another's calls by calling a tool `rest.of.its.name`.
    """
    try:
        listed = servers()
    except ImpossibleError:
        return None
    meant: tuple[str, str] | None = None
    for server in sorted(listed, key=lambda one: -len(one["id"])):
        for called in (server["id"], server["module"]):
            if name.startswith(f"{called}."):
                rest = name[len(called) + 1 :]
                for tool in server["tools"]:
                    found = str(server["id"]), str(tool["name"])
                    if (called, rest) == found:
                        return found
                    if meant is None and rest in (tool["name"], tool["python"], tool["node"]):
                        meant = found
    return meant
