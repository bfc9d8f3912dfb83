"""Input and result of `reading` as JSON, for a reader in another process. Pure.

`index_json` and `read_index` encode the names of a manifest, `json_form` and `read_code_json` the findings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moonpool.code_reading.arguments import Arguments
from moonpool.code_reading.names import Miss, NameIndex
from moonpool.code_reading.reading import CallRead, CodeRead, ImportRead, MissRead, Remark, Uncertainty
from moonpool.wrappers.names import ServerNames, ToolNames, TreeNames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.code_reading.arguments import Path
    from moonpool.core.json import JsonObject, JsonValue


def index_json(index: NameIndex) -> JsonObject:
    return {
        "names": index.names.to_json(),
        "missing": dict(index.missing),
        "actions": [*sorted(index.actions)],
        "skills": [*sorted(index.skills)],
    }


def read_index(members: Any) -> NameIndex:
    """Decode the result of `index_json`."""
    servers = [_server(one) for one in members["names"]["servers"]]
    return NameIndex(
        TreeNames(servers={one.server_id: one for one in servers}),
        members["missing"],
        actions=frozenset(members["actions"]),
        skills=frozenset(members["skills"]),
    )


def _server(members: Any) -> ServerNames:
    tools = [
        ToolNames(
            tool=one["name"],
            function=one["function"],
            sync_function=one["sync"],
            file=one["file"],
            module=one["mcptools"],
            node=one["node"],
        )
        for one in members["tools"]
    ]
    return ServerNames(
        server_id=members["serverId"],
        module=members["module"],
        title=members["title"],
        tools={one.tool: one for one in tools},
    )


def code_json(read: CodeRead) -> JsonObject:
    return {
        "imports": [[one.line, one.path] for one in read.imports],
        "calls": [[one.line, one.path, one.server_id, one.tool, _arguments_json(one.arguments)] for one in read.calls],
        "misses": [
            [one.line, one.miss.path, one.miss.name, one.miss.server_id, one.miss.unreachable, one.miss.is_action]
            for one in read.misses
        ],
        "uncertain": [[one.line, one.text] for one in read.uncertain],
        "remarks": [[one.line, one.path, one.awaits] for one in read.remarks],
        "kept": dict(read.kept),
        "left_out": read.left_out,
    }


def read_code_json(members: Any) -> CodeRead:
    """Decode the result of `json_form`."""
    return CodeRead(
        imports=[ImportRead(*one) for one in members["imports"]],
        calls=[
            CallRead(line, path, server_id, tool, _arguments(given))
            for line, path, server_id, tool, given in members["calls"]
        ],
        misses=[
            MissRead(line, Miss(path, name, server_id, unreachable=unreachable, is_action=is_action))
            for line, path, name, server_id, unreachable, is_action in members["misses"]
        ],
        uncertain=[Uncertainty(*one) for one in members["uncertain"]],
        remarks=[Remark(line, path, awaits=awaits) for line, path, awaits in members["remarks"]],
        kept=members["kept"],
        left_out=members["left_out"],
    )


def _arguments_json(given: Arguments) -> JsonObject:
    return {
        "values": given.values,
        "unread": _paths_json(given.unread),
        "open": _paths_json(given.open),
        "problems": [*given.problems],
    }


def _arguments(members: Any) -> Arguments:
    return Arguments(
        values=members["values"],
        unread={tuple(path) for path in members["unread"]},
        open={tuple(path) for path in members["open"]},
        problems=members["problems"],
    )


def _paths_json(paths: Iterable[Path]) -> list[JsonValue]:
    return [[*path] for path in paths]
