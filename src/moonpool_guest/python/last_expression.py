"""Compiles code so that the value of its last expression is kept, as the answer of a code that hands over nothing else.

Code that ends in an expression is compiled in two pieces: what stands before it, as it is, and the expression, in whose
syntax tree its value is given a name that no code can write. Lines and columns stay what they are. Going through the
tree with all of the code would take twice as long as compiling does; finding the last statement by parsing from one of
the last lines takes some 30 µs, whatever the code's size (docs/decisions/0041-the-last-expression.md).

INVARIANT: a piece counts only if both pieces are whole programs: then no string, bracket or block goes across the cut.
"""

import ast
import re
import warnings
from contextlib import nullcontext
from types import CodeType
from typing import Any

NAME = "<last>"  # no identifier
TREE_CHARS_MAX = 16 * 1024
"""Of a last statement that is looked at, and of code whose last statement is not found from one of its last lines."""

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_LINES_MAX, _TRIES_MAX = 400, 8
_ASSIGNMENT = re.compile(r"""[A-Za-z_]\w*[ \t]*=(?!=)[^\n"'#;\\]*""", re.ASCII)
_NO_START = frozenset(" \t\f\n#)]}")
_FUTURE = 0x1FF0000  # flags of `from __future__` in a code object, as `compile` takes them
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def compile_code(text: str, name: str) -> "tuple[CodeType, ...]":
    """The pieces, to be run one after the other. Raises what `compile` raises for the whole."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")  # as `compile` does
    if not text[-2000:].rstrip().endswith(";"):  # which means "do not show", as in IPython
        try:
            if pieces := _in_pieces(text, name):
                return pieces
        except _UNREADABLE:
            pass  # the whole text's own error is the better one
    return (compile(text, name, "exec", flags=_AWAIT, dont_inherit=True),)


def _in_pieces(text: str, name: str) -> "tuple[CodeType, ...] | None":
    start = _last_statement(text)
    if start is None:
        return None
    head, tail = text[:start], text[start:]
    if not head.strip():
        return (_keeping(text, name, 0),)
    try:
        before = compile(head, name, "exec", flags=_AWAIT, dont_inherit=True)
        return before, _keeping("\n" * head.count("\n") + tail, name, before.co_flags & _FUTURE)
    except _UNREADABLE:  # it is inside of a string
        return (_keeping(text, name, 0),) if len(text) <= TREE_CHARS_MAX else None


def _keeping(text: str, name: str, flags: int) -> CodeType:
    tree: Any = compile(text, name, "exec", flags=_AWAIT | ast.PyCF_ONLY_AST | flags, dont_inherit=True)
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        target = ast.copy_location(ast.Name(NAME, ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    return compile(tree, name, "exec", flags=_AWAIT | flags, dont_inherit=True)


def _last_statement(text: str) -> "int | None":
    """Where the last line begins at which a statement begins, if the last one is an expression or may be; else None."""
    whole = 0 if len(text) <= TREE_CHARS_MAX else None  # when in doubt, all of it goes through the tree
    at, tries = len(text), 0
    for _ in range(_LINES_MAX):
        at = text.rfind("\n", 0, at)
        start = at + 1
        if len(text) - start > TREE_CHARS_MAX:
            return None
        if text[start : start + 1] and text[start] not in _NO_START:
            tail = text[start:]
            if not tries and not text[:at].endswith("\\") and _is_assignment(tail.rstrip()):
                return None
            if (kind := _kind_of_last(tail)) is not None:
                certain = kind is ast.Expr or not ('"""' in tail or "'''" in tail or text[:at].endswith("\\"))
                return (start if kind is ast.Expr else None) if certain else whole
            if (tries := tries + 1) >= _TRIES_MAX:
                return whole
        if at <= 0:
            return None  # nothing but comments, or no program
    return whole


def _is_assignment(tail: str) -> bool:
    """Whether a program whose last lines these are ends with an assignment, if it is a program at all.

    INVARIANT: true only for one line that closes nothing but what it opens, with no string, comment or further
    statement in it: what was open before it would stay open.
    """
    if _ASSIGNMENT.fullmatch(tail) is None:
        return False
    depth = 0
    for character in tail:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth < 0:
                return False
    return not depth


def _kind_of_last(tail: str) -> "type[ast.stmt] | None":
    """Of which kind the last statement of `tail` is; None if it is no whole program."""
    try:
        with _silence() if "\\" in tail else nullcontext():
            tree: Any = compile(tail, NAME, "exec", flags=_AWAIT | ast.PyCF_ONLY_AST, dont_inherit=True)
    except _UNREADABLE:
        return None
    body: list[ast.stmt] = tree.body
    return type(body[-1]) if body else None


def _silence() -> "warnings.catch_warnings[None]":
    """What is wrong with a string's escapes is said when the code is compiled, once."""
    return warnings.catch_warnings(action="ignore")
