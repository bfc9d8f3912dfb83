"""Resolves names in Python code to parts of the wrapper trees: packages, tools and their members. Pure.

`step` follows one attribute or one part of a dotted import exactly as the generated packages and `client` would resolve
it in a sandbox. A missing name is a `Miss`, which the reader turns into a finding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.wrappers.names import ServerNames, ToolNames, TreeNames

TREES: Final = ("servers", "mcptools")
ACTIONS: Final = "actions"
SKILLS: Final = "skills"
_GENERIC: Final = frozenset({"call_tool", "call_tool_sync", "run_tool", "run_tool_sync"})


class Kind(Enum):
    """The kind of a target."""

    ROOT = auto()  # servers, mcptools, client, actions, skills
    SERVER = auto()
    TOOL = auto()  # servers.x.tool, the function and at the same time the module; mcptools.x.tool, a module only
    RUN = auto()  # mcptools.x.tool.run
    RECORD = auto()  # a class whose instances are arguments
    CLIENT = auto()  # client.mcp_client
    GENERIC = auto()  # call_tool and similar functions
    CATEGORY = auto()  # actions.github, skills.pdf_forms.scripts
    KEPT = auto()  # a module: actions.github.top_commits, skills.pdf_forms.scripts.fill


@dataclass(frozen=True, slots=True)
class Target:
    """A part of the wrapper trees that a name refers to."""

    kind: Kind
    path: str  # the full path as in code
    server_id: str = ""
    tool: str = ""
    is_async: bool = False  # for callables: must be awaited

    @property
    def raises(self) -> bool:
        """Whether a failed call raises an error instead of returning a failed result."""
        return self.kind is Kind.RUN or self.path.rpartition(".")[2] in {"run_tool", "run_tool_sync"}

    @property
    def is_called(self) -> bool:
        """Whether calling it calls a tool."""
        return self.kind in {Kind.RUN, Kind.GENERIC} or (self.kind is Kind.TOOL and self.path.startswith("servers."))


@dataclass(frozen=True, slots=True)
class Miss:
    """A name that is not in the trees."""

    path: str
    name: str
    server_id: str = ""  # empty: the name is in place of a server
    unreachable: bool = False  # a configured server whose tools are not known
    is_action: bool = False  # the name is in place of a saved action or a category


@dataclass(frozen=True, slots=True)
class _Server:
    names: ServerNames
    functions: Mapping[str, ToolNames]
    modules: Mapping[str, ToolNames]


@dataclass(slots=True)
class NameIndex:
    """The names of one manifest, for look-ups."""

    names: TreeNames
    missing: Mapping[str, str] = field(default_factory=dict[str, str])  # module -> id of an unreachable server
    actions: frozenset[str] = frozenset()  # names of saved actions; without any, `actions` is ignored
    skills: frozenset[str] = frozenset()  # modules of skills, below `skills`
    _servers: dict[str, _Server] = field(init=False)
    _library: frozenset[str] = field(init=False)  # full paths of modules
    _packages: frozenset[str] = field(init=False)  # full paths of their packages

    def __post_init__(self) -> None:
        named = [(ACTIONS, one) for one in self.actions] + [(SKILLS, one) for one in self.skills]
        self._library = frozenset(f"{root}.{one}" for root, one in named)
        parts = [path.split(".") for path in self._library]
        self._packages = frozenset(".".join(one[:end]) for one in parts for end in range(1, len(one)))
        self._servers = {server.module: _index(server) for server in self.names.servers.values()}

    def root(self, name: str) -> Target | None:
        """The target of `import NAME`, if it is ours."""
        return Target(Kind.ROOT, name) if self.has_tree(name) or name == "client" else None

    def has_tree(self, name: str) -> bool:
        """Whether there is a wrapper tree of this name."""
        return name in TREES or (name == ACTIONS and bool(self.actions)) or (name == SKILLS and bool(self.skills))

    def step(self, at: Target, name: str) -> Target | Miss | None:
        """The attribute or submodule `name`; None if it is not ours."""
        path = f"{at.path}.{name}"
        match at.kind:
            case Kind.ROOT if at.path == "client":
                return Target(Kind.CLIENT, path) if name == "mcp_client" else None
            case Kind.ROOT | Kind.CATEGORY if at.path.partition(".")[0] == ACTIONS:
                return self._action(path, name)
            case Kind.ROOT | Kind.CATEGORY if at.path.partition(".")[0] == SKILLS:
                return self._kept(path)
            case Kind.ROOT:
                return self._server(path, name)
            case Kind.CLIENT:
                return Target(Kind.GENERIC, path, is_async=not name.endswith("_sync")) if name in _GENERIC else None
            case Kind.SERVER:
                return self._tool(at, path, name)
            case Kind.TOOL:
                return self._member(at, path, name)
            case _:
                return None

    def code_of(self, target: Target) -> str:
        """The module of the library that runs when `target` is imported; empty for none."""
        if target.kind is Kind.KEPT:
            return target.path
        package = f"{target.path}.__init__"  # of a folder inside a skill; the skill's own does not run
        inside = target.kind is Kind.CATEGORY and target.path.count(".") > 1
        return package if inside and package in self._library else ""

    def _action(self, path: str, name: str) -> Target | Miss | None:
        return self._kept(path) or (None if name.startswith("__") else Miss(path, name, is_action=True))

    def _kept(self, path: str) -> Target | None:
        if path in self._library:
            return Target(Kind.KEPT, path)
        return Target(Kind.CATEGORY, path) if path in self._packages else None

    def _server(self, path: str, name: str) -> Target | Miss | None:
        if (server := self._servers.get(name)) is not None:
            return Target(Kind.SERVER, path, server.names.server_id)
        if name in self.missing:
            return Miss(path, name, self.missing[name], unreachable=True)
        return None if name.startswith("__") else Miss(path, name)

    def _tool(self, at: Target, path: str, name: str) -> Target | Miss | None:
        tree, _, module = at.path.partition(".")
        server = self._servers[module]
        tool = (server.functions if tree == "servers" else server.modules).get(name)
        if tool is not None:
            return Target(Kind.TOOL, path, at.server_id, tool.tool, is_async=name != tool.sync_function)
        return None if name.startswith("__") else Miss(path, name, at.server_id)

    def _member(self, at: Target, path: str, name: str) -> Target | None:
        record = Target(Kind.RECORD, path, at.server_id, at.tool)
        if at.path.startswith("mcptools."):
            if name in {"run", "run_async"}:
                return Target(Kind.RUN, path, at.server_id, at.tool, is_async=name == "run_async")
            return record if name == "Params" else None
        functions = self._servers[at.path.split(".")[1]].functions
        tool = functions.get(name)
        if tool is not None and tool.tool == at.tool:
            return Target(Kind.TOOL, path, at.server_id, at.tool, is_async=name != tool.sync_function)
        return record if name.endswith("Input") else None


def _index(server: ServerNames) -> _Server:
    functions: dict[str, ToolNames] = {}
    for tool in server.tools.values():
        functions.update({tool.file: tool, tool.sync_function: tool})
    functions.update({tool.function: tool for tool in server.tools.values()})
    return _Server(server, functions, {tool.module: tool for tool in server.tools.values()})
