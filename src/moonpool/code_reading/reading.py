"""Python code -> the wrappers it imports and the tool calls it makes, as far as both are static. Pure.

SECURITY: the code is untrusted. It is parsed, never executed, compiled or imported; its size and the number of its
nodes are bounded, and recursion depth does not depend on the code. CPython's parser bounds neither memory nor time and
does not release the GIL: a host calls this in a process with limits (`moonpool.code_reading.reader`). The findings help
the author; nothing is enforced here: the broker decides each call at run time.

`meanings` resolves expressions, `arguments` reads arguments.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from moonpool.code_reading.arguments import Arguments
from moonpool.code_reading.meanings import Ambiguous, Meanings, is_importer, literal
from moonpool.code_reading.names import Kind, Miss, NameIndex, Target
from moonpool.code_reading.scopes import LAST, TooManyNodesError, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moonpool.code_reading.scopes import Scope, Survey

NODE_COUNT_MAX: Final = 200_000
ITEM_COUNT_MAX: Final = 1000
RESULT: Final = "result"
_PARSE_ERRORS: Final = (SyntaxError, ValueError)
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class ImportRead:
    """An import from a wrapper tree."""

    line: int
    path: str  # in full: servers.time.convert_time


@dataclass(frozen=True, slots=True)
class CallRead:
    """A call of a tool."""

    line: int
    path: str  # the full path of the callee
    server_id: str
    tool: str
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class MissRead:
    line: int
    miss: Miss


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Something that is only known at run time."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A call that is certainly not awaited, or whose result is never used."""

    line: int
    path: str  # the callee
    awaits: bool  # False: it is not awaited


@dataclass(slots=True)
class CodeRead:
    """All findings, in the order of lines."""

    imports: list[ImportRead] = field(default_factory=list[ImportRead])
    calls: list[CallRead] = field(default_factory=list[CallRead])
    misses: list[MissRead] = field(default_factory=list[MissRead])
    uncertain: list[Uncertainty] = field(default_factory=list[Uncertainty])
    remarks: list[Remark] = field(default_factory=list[Remark])
    kept: dict[str, int] = field(default_factory=dict[str, int])  # modules of the library, with a line that uses each
    left_out: int = 0  # items beyond `ITEM_COUNT_MAX` of a kind


class UnreadableCodeError(Exception):
    """The code does not parse. `type` and message are those of the error at run time, without the line."""

    def __init__(self, message: str, *, type: str, line: int) -> None:  # noqa: A002  the name of the member
        super().__init__(message)
        self.type, self.line = type, line

    @classmethod
    def of(cls, error: BaseException) -> UnreadableCodeError:
        line = error.lineno if isinstance(error, SyntaxError) else None
        message = error.msg if isinstance(error, SyntaxError) and line else str(error)
        return cls(message, type=type(error).__name__, line=line or 1)


def read_code(
    source: bytes, index: NameIndex, wire_names: Callable[[str, str], Mapping[str, str]], *, module: str = ""
) -> CodeRead:
    """Read Python `source`. `wire_names` gives a tool's parameters by identifier, `module` is its name if it has one.

    Raises UnreadableCodeError for code that does not parse, TooManyNodesError.
    """
    try:
        text = source.decode("utf-8-sig")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = compile(text, "<code>", "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
    except (MemoryError, RecursionError):  # also the parser's own bound of depth
        raise TooManyNodesError from None
    except _PARSE_ERRORS as error:
        raise UnreadableCodeError.of(error) from None
    assert isinstance(tree, ast.Module)
    if module:
        _make_absolute(tree, module.split("."))
    return _Reader(survey(tree, node_count_max=NODE_COUNT_MAX), index, wire_names).read()


def _make_absolute(tree: ast.Module, module: list[str]) -> None:
    """Rewrite `from . import x` as an absolute import in this module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and 0 < node.level < len(module):
            above = module[: -node.level]
            node.module, node.level = ".".join([*above, node.module] if node.module else above), 0


class _Reader:
    def __init__(self, found: Survey, index: NameIndex, wire_names: Callable[[str, str], Mapping[str, str]]) -> None:
        self._found, self._index, self._wire_names = found, index, wire_names
        self._meanings = Meanings(index)
        self._loads: dict[tuple[int, str], bool] | None = None  # see `_use`; per call it would be quadratic
        self._read = CodeRead(kept=self._meanings.kept)

    def read(self) -> CodeRead:
        for node in sorted(self._found.imports, key=lambda one: one.lineno):
            self._import(node)
        for name, scope in sorted(self._found.names, key=lambda one: _place(one[0])):
            if id(name) not in self._found.inner:
                self._name(name, scope)
        for call, scope in sorted(self._found.calls, key=lambda one: _place(one[0])):
            self._call(call, scope)
        read = self._read
        read.misses = _distinct(read.misses)
        read.uncertain = sorted(_distinct(read.uncertain), key=lambda one: one.line)
        del read.remarks[ITEM_COUNT_MAX:]
        for items in (read.imports, read.calls, read.misses, read.uncertain):
            read.left_out += max(0, len(items) - ITEM_COUNT_MAX)
            del items[ITEM_COUNT_MAX:]
        return read

    # --- imports and names

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom):
            head = tuple((node.module or "").split(".")) if not node.level else ("",)
            paths = [(*head, alias.name) for alias in node.names]
        else:
            paths = [tuple(alias.name.split(".")) for alias in node.names]
        for given in paths:
            if not self._index.has_tree(given[0]):
                continue
            path = given[:-1] if given[-1] == "*" else given
            if path != given:
                text = f"`from {'.'.join(path)} import *` hides which tools are used; import them by name"
                self._read.uncertain.append(Uncertainty(node.lineno, text))
            meaning = self._meanings.follow(path, node.lineno)
            if isinstance(meaning, Miss):
                self._read.misses.append(MissRead(node.lineno, meaning))
            else:
                self._read.imports.append(ImportRead(node.lineno, ".".join(path)))

    def _name(self, node: ast.Name | ast.Attribute, scope: Scope) -> None:
        meaning = self._meanings.of(node, scope)
        if isinstance(meaning, Miss) and isinstance(node, ast.Attribute):
            self._read.misses.append(MissRead(node.lineno, meaning))
        elif isinstance(meaning, Target) and meaning.is_called and id(node) not in self._found.used:
            text = f"{meaning.path} is passed on here; calls through it cannot be read"
            self._read.uncertain.append(Uncertainty(node.lineno, text))

    # --- calls

    def _call(self, node: ast.Call, scope: Scope) -> None:
        self._look_up(node, scope)
        meaning = self._meanings.of(node.func, scope)
        if isinstance(meaning, Ambiguous):
            text = "what is called here is a tool or something else, depending on how the code runs"
            self._read.uncertain.append(Uncertainty(node.lineno, text))
        elif not isinstance(meaning, Target):
            return
        elif meaning.kind is Kind.TOOL and not meaning.is_called:
            problem = f"{meaning.path} is a module; call {meaning.path}.run(...)"
            arguments = Arguments(problems=[problem], open={()})
            self._read.calls.append(CallRead(node.lineno, meaning.path, meaning.server_id, meaning.tool, arguments))
        elif not meaning.is_called:
            return
        elif meaning.kind is Kind.GENERIC:
            self._remark(node, meaning, scope)
            self._generic_call(node, meaning)
        else:
            self._remark(node, meaning, scope)
            arguments = self._arguments(node, meaning, scope)
            self._read.calls.append(CallRead(node.lineno, meaning.path, meaning.server_id, meaning.tool, arguments))

    def _remark(self, node: ast.Call, meaning: Target, scope: Scope) -> None:
        """Report a call that is certainly not awaited, or whose result is never used."""
        found, key = self._found, id(node)
        name = found.named.get(key)
        use = None if name in {None, LAST} else self._use(str(name), scope)
        gathered = key in found.gathered
        if meaning.is_async and not gathered and key not in found.awaited:
            is_named = name not in {None, LAST} and use is not False
            if is_named or key in found.dropped or key in found.consumed:
                self._read.remarks.append(Remark(node.lineno, meaning.path, awaits=False))
        elif name != LAST and not meaning.raises and use is None and (name or gathered or key in found.dropped):
            is_result = name == RESULT and (found_in := scope.find(name)) is not None and found_in[0].parent is None
            if not is_result:
                self._read.remarks.append(Remark(node.lineno, meaning.path, awaits=True))

    def _use(self, name: str, scope: Scope) -> bool | None:
        """Whether all uses of the variable `name` in `scope` examine its value; None: there are no uses."""
        if self._loads is None:
            self._loads = {}
            for node, where in self._found.names:
                if isinstance(node, ast.Name) and (bound := where.find(node.id)) is not None:
                    key = id(bound[0]), node.id
                    self._loads[key] = self._loads.get(key, True) and id(node) in self._found.consumed
        bound = scope.find(name)
        return None if bound is None else self._loads.get((id(bound[0]), name))

    def _look_up(self, node: ast.Call, scope: Scope) -> None:
        """Names that are looked up by string: findings if they are missing or computed."""
        if is_importer(node.func, scope) and node.args:
            name = literal(node.args[0])
            meaning = self._meanings.follow(tuple(name.split(".")), node.lineno) if name is not None else None
            computed = name is None
        elif isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2:
            base = self._meanings.of(node.args[0], scope)
            if not isinstance(base, Target):
                return
            meaning, computed = self._meanings.of_call(node, scope), literal(node.args[1]) is None
        else:
            return
        if isinstance(meaning, Miss):
            self._read.misses.append(MissRead(node.lineno, meaning))
        elif computed:
            text = "the name of a module or tool is computed here; write it out where you can"
            self._read.uncertain.append(Uncertainty(node.lineno, text))

    def _generic_call(self, node: ast.Call, meaning: Target) -> None:
        given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        arguments = Arguments()
        if node.args:
            order = ("server_id", "name", "arguments")
            given = {**dict(zip(order, node.args, strict=False)), **given}
            text = f"{meaning.path.rpartition('.')[2]} takes keywords only: server_id=…, name=…, arguments={{…}}"
            arguments.problems.append(text)
        server_id, tool = (literal(given[one]) if one in given else None for one in ("server_id", "name"))
        if server_id is None or tool is None:
            text = (
                f"{meaning.path.rpartition('.')[2]} is called with a computed server or tool; only the run shows which"
            )
            self._read.uncertain.append(Uncertainty(node.lineno, text))
            return
        if "arguments" in given:
            arguments.put_object(given["arguments"])
        self._read.calls.append(CallRead(node.lineno, meaning.path, server_id, tool, arguments))

    def _arguments(self, node: ast.Call, target: Target, scope: Scope) -> Arguments:
        arguments = Arguments()
        names = self._wire_names(target.server_id, target.tool)
        positional, keywords = list(node.args), list(node.keywords)
        if any(isinstance(one, ast.Starred) for one in positional):
            arguments.open.add(())
            positional = []
        if not positional and target.kind is Kind.RUN and len(keywords) == 1 and keywords[0].arg == "params":
            positional, keywords = [keywords[0].value], []
        if len(positional) > 1:
            arguments.problems.append("a wrapper takes one dict or model, and keywords; name the others")
        if positional:
            self._object(arguments, positional[0], names, scope)
        arguments.put_keywords(keywords, names)
        return arguments

    def _object(self, arguments: Arguments, node: ast.expr, names: Mapping[str, str], scope: Scope) -> None:
        """The one positional argument: a dict, a record class called with keywords, or something unread."""
        if isinstance(node, ast.Call) and not node.args:
            meaning = self._meanings.of(node.func, scope)
            plain = isinstance(node.func, ast.Name) and node.func.id == "dict" and scope.find("dict") is None
            if plain or (isinstance(meaning, Target) and meaning.kind is Kind.RECORD):
                is_model = isinstance(meaning, Target) and meaning.path.startswith("mcptools.")
                arguments.put_keywords(node.keywords, names if is_model else {})
                return
        arguments.put_object(node)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _distinct(items: list[_Item]) -> list[_Item]:
    return list(dict.fromkeys(items))
