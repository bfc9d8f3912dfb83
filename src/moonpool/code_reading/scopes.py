"""Scopes of Python code and the bindings of their names. Pure; nothing is executed or imported.

Order within a scope does not matter. A name that is bound to a wrapper in one place and to something else in another is
ambiguous, and reported as such.

INVARIANT: no recursion over the tree, whose depth the code chooses.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

LAST: Final = "<last>"
"""In `Survey.named`: the code's last expression."""
_READERS: Final = frozenset(("len", "list", "tuple", "dict", "set", "sorted", "sum", "min", "max", "any", "all", "str",
                             "int", "float", "bool", "print", "enumerate", "zip", "iter", "isinstance"))  # fmt: skip
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Imported:
    """Bound by an import: the dotted name that it stands for."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bound by something that is not static (a parameter, a loop, a definition...)."""


OPAQUE: Final = Opaque()
Binding: TypeAlias = Imported | ast.expr | Opaque


@dataclass(slots=True, eq=False)
class Scope:
    """One namespace of the code."""

    parent: Scope | None = None
    is_class: bool = False
    bindings: dict[str, list[Binding]] = field(default_factory=dict[str, list[Binding]])
    passed: dict[str, Scope] = field(default_factory=dict[str, "Scope"])  # global and nonlocal names

    def bind(self, name: str, binding: Binding) -> None:
        scope = self.passed.get(name, self)
        scope.bindings.setdefault(name, []).append(binding)

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds `name` as seen from here, and its bindings."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and (scope is self or not scope.is_class):
                return scope, scope.bindings[name]
            scope = scope.parent
        return None


@dataclass(slots=True)
class Survey:
    """Every node of interest with its scope, in no particular order."""

    calls: list[tuple[ast.Call, Scope]] = field(default_factory=list[tuple[ast.Call, Scope]])
    names: list[tuple[ast.Name | ast.Attribute, Scope]] = field(
        default_factory=list[tuple[ast.Name | ast.Attribute, Scope]]
    )
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list[ast.Import | ast.ImportFrom])
    inner: set[int] = field(default_factory=set[int])  # ids of expressions that are part of a longer dotted name
    used: set[int] = field(default_factory=set[int])  # ids of names that are called or only given another name
    awaited: set[int] = field(default_factory=set[int])  # ids of awaited expressions
    dropped: set[int] = field(default_factory=set[int])  # ids of expressions whose value is discarded
    # ids of expressions awaited by a `gather` whose value is discarded
    gathered: set[int] = field(default_factory=set[int])
    consumed: set[int] = field(default_factory=set[int])  # ids of expressions whose value is examined in place
    named: dict[int, str] = field(default_factory=dict[int, str])  # ids of expressions that are assigned to a name
    node_count: int = 0


class TooManyNodesError(Exception):
    """The code is larger than the limit."""


def survey(tree: ast.Module, *, node_count_max: int) -> Survey:
    """Walk the whole tree once. Raises TooManyNodesError."""
    found, module = Survey(), Scope()
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        value = _awaited_value(last.value)
        found.named.update((id(one), LAST) for one in (value, *_gathered(value)))  # it is the execution's result
    waiting: list[tuple[ast.AST, Scope]] = [(tree, module)]
    while waiting:
        node, scope = waiting.pop()
        found.node_count += 1
        if found.node_count > node_count_max:
            raise TooManyNodesError
        _note(node, scope, found)
        _note_use(node, found)
        waiting += _children(node, scope, module)
    return found


def _note_use(node: ast.AST, found: Survey) -> None:
    """Record how `node` uses the values of the expressions in it."""
    match node:
        case ast.Await(value=value):
            found.awaited.add(id(value))
        case ast.Expr(value=value):
            value = _awaited_value(value)
            found.dropped.add(id(value))
            found.gathered.update(map(id, _gathered(value)))
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            found.named[id(_awaited_value(value))] = name
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.FormattedValue(value=value):
            found.consumed.add(id(value))
        case ast.For(iter=value) | ast.comprehension(iter=value) | ast.If(test=value) | ast.While(test=value):
            found.consumed.add(id(value))
        case ast.Compare(left=left, comparators=right):
            found.consumed.update(id(one) for one in (left, *right))
        case ast.BinOp(left=left, right=right):
            found.consumed.update((id(left), id(right)))
        case ast.UnaryOp(operand=value):
            found.consumed.add(id(value))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _READERS:
            found.consumed.update(map(id, args))
        case _:
            pass


def _awaited_value(node: ast.expr) -> ast.expr:
    """The operand of an `await`."""
    return node.value if isinstance(node, ast.Await) else node


def _gathered(node: ast.expr) -> list[ast.expr]:
    """The calls in `asyncio.gather(a(), b())`."""
    gathers = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "gather"
    return node.args if gathers and isinstance(node, ast.Call) else []


def _note(node: ast.AST, scope: Scope, found: Survey) -> None:
    match node:
        case ast.Call():
            found.calls.append((node, scope))
            found.used.add(id(node.func))
        case ast.Attribute(ctx=ast.Load()):
            found.inner.add(id(node.value))
            found.names.append((node, scope))
        case ast.Name(ctx=ast.Load()):
            found.names.append((node, scope))
        case ast.Import() | ast.ImportFrom():
            found.imports.append(node)
            for name, path in import_names(node):
                scope.bind(name, Imported(path))
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            scope.bind(name, value)
            found.used.add(id(value))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            scope.bind(name, value)
            found.used.add(id(value))
        case _:
            for name in _opaque_names(node):
                scope.bind(name, OPAQUE)


def import_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(name, target) for each name that an import binds."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            parts = tuple(alias.name.split("."))
            yield (alias.asname, parts) if alias.asname else (parts[0], parts[:1])
    elif not node.level and node.module:
        for alias in node.names:
            yield alias.asname or alias.name, (*node.module.split("."), alias.name)


def _opaque_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del(), id=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.arg(arg=name):
            yield name
        case _:
            return


def _children(node: ast.AST, scope: Scope, module: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            scope.bind(node.name, OPAQUE)
            inside = Scope(scope)
            outer = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults, node.returns]
            yield from ((one, scope) for one in outer if one is not None)
            yield from ((one, inside) for one in _parameters(node.args))
            yield from _body(node.body, inside, module)
        case ast.Lambda():
            inside = Scope(scope)
            yield from ((one, scope) for one in [*node.args.defaults, *node.args.kw_defaults] if one is not None)
            yield from ((one, inside) for one in _parameters(node.args))
            yield node.body, inside
        case ast.ClassDef():
            scope.bind(node.name, OPAQUE)
            yield from ((one, scope) for one in [*node.decorator_list, *node.bases, *node.keywords])
            yield from _body(node.body, Scope(scope, is_class=True), module)
        case ast.Assign(targets=[ast.Name()], value=value):
            yield value, scope
        case ast.AnnAssign(target=ast.Name(), value=ast.expr() as value):
            yield value, scope
        case _ if isinstance(node, _COMPREHENSIONS):
            inside = Scope(scope)
            yield from ((child, inside) for child in ast.iter_child_nodes(node))
        case _:
            yield from ((child, scope) for child in ast.iter_child_nodes(node))


def _parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (one for one in (arguments.vararg, arguments.kwarg) if one is not None)


def _body(body: list[ast.stmt], scope: Scope, module: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    """The statements of a function or class; its global and nonlocal declarations are applied first."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Global):
            scope.passed.update(dict.fromkeys(node.names, module))
        elif isinstance(node, ast.Nonlocal) and scope.parent is not None:
            scope.passed.update(dict.fromkeys(node.names, scope.parent))
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) and not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            waiting += (child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))
    yield from ((one, scope) for one in body)
