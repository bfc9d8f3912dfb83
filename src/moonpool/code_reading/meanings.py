"""Resolves expressions of Python code: to a wrapper, a miss, an ambiguity, or nothing of ours. Pure.

Names are followed through imports, assignments and attributes, `getattr` and `importlib.import_module` with literal
names, each to a bounded depth. `names` has the names, `scopes` their bindings.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from moonpool.code_reading.names import Miss, NameIndex, Target
from moonpool.code_reading.scopes import Imported, Opaque

if TYPE_CHECKING:
    from moonpool.code_reading.scopes import Binding, Scope

_DOTS_MAX: Final = 32
_ALIAS_DEPTH_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A name that is a wrapper in one place and something else in another."""


AMBIGUOUS: Final = Ambiguous()
Meaning: TypeAlias = Target | Miss | Ambiguous | None


class Meanings:
    """The meanings of one piece of code."""

    def __init__(self, index: NameIndex) -> None:
        self._index = index
        self._known: dict[tuple[int, str], Meaning] = {}
        self.kept: dict[str, int] = {}  # modules of the library found so far, with a line that uses each

    def follow(self, path: tuple[str, ...], line: int = 1) -> Target | Miss | None:
        """Resolve a dotted path of imports."""
        meaning: Target | Miss | None = self._index.root(path[0])
        for part in path[1:]:
            if not isinstance(meaning, Target):
                break
            meaning = self._step(meaning, part, line)
        return meaning

    def _step(self, at: Target, name: str, line: int) -> Target | Miss | None:
        meaning = self._index.step(at, name)
        if isinstance(meaning, Target) and (module := self._index.code_of(meaning)):
            self.kept.setdefault(module, line)
        return meaning

    def of(self, node: ast.expr, scope: Scope, depth: int = 0) -> Meaning:
        """Resolve a dotted name; a Miss only for the part that is missing."""
        attributes: list[str] = []
        line = node.lineno
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
            if len(attributes) > _DOTS_MAX:
                return None
        if isinstance(node, ast.Name):
            meaning = self._resolve_name(node.id, scope, depth)
        elif isinstance(node, ast.Call) and depth < _ALIAS_DEPTH_MAX:
            meaning = self.of_call(node, scope, depth)
        else:
            return None
        for name in reversed(attributes):
            if not isinstance(meaning, Target):
                return meaning if isinstance(meaning, Ambiguous) else None
            meaning = self._step(meaning, name, line)
        return meaning

    def _resolve_name(self, name: str, scope: Scope, depth: int) -> Meaning:
        found = scope.find(name)
        if found is None:
            return None
        where, bindings = found
        key = (id(where), name)
        if key not in self._known:
            self._known[key] = None  # a name defined by itself resolves to nothing
            meanings = {self._meaning(binding, where, depth) for binding in bindings[:64]}
            ours = {one for one in meanings if isinstance(one, Target)}
            if not ours:
                self._known[key] = AMBIGUOUS if AMBIGUOUS in meanings else None
            else:
                self._known[key] = ours.pop() if len(meanings) == 1 else AMBIGUOUS
        return self._known[key]

    def _meaning(self, binding: Binding, scope: Scope, depth: int) -> Meaning:
        if isinstance(binding, Opaque) or depth >= _ALIAS_DEPTH_MAX:
            return None
        if isinstance(binding, Imported):
            return self.follow(binding.path)
        return self.of(binding, scope, depth + 1)

    def of_call(self, node: ast.Call, scope: Scope, depth: int = 0) -> Meaning:
        """`getattr(module, "tool")` and `importlib.import_module("servers.x")` with literal names."""
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2:
            base, name = self.of(node.args[0], scope, depth + 1), literal(node.args[1])
            return self._step(base, name, node.lineno) if isinstance(base, Target) and name is not None else None
        if is_importer(node.func, scope) and node.args and (name := literal(node.args[0])) is not None:
            return self.follow(tuple(name.split(".")), node.lineno)
        return None


def is_importer(node: ast.expr, scope: Scope) -> bool:
    """`importlib.import_module`, `import_module` imported from it, or `__import__`."""
    if isinstance(node, ast.Attribute) and node.attr == "import_module" and isinstance(node.value, ast.Name):
        return _stands_for(node.value.id, ("importlib",), scope)
    if not isinstance(node, ast.Name):
        return False
    if node.id == "__import__":
        return scope.find(node.id) is None
    return _stands_for(node.id, ("importlib", "import_module"), scope)


def _stands_for(name: str, path: tuple[str, ...], scope: Scope) -> bool:
    found = scope.find(name)
    return found is not None and any(isinstance(one, Imported) and one.path == path for one in found[1])


def literal(node: ast.expr) -> str | None:
    """The value of a string literal."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
