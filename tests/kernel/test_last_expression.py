"""The value of code's last expression: compiled in two pieces, handed over, and never a reason to fail."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from moonpool_guest.python.last_expression import NAME, TREE_CHARS_MAX, compile_code
from tables import every_row

if TYPE_CHECKING:
    from sandboxes.probe import Probe

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-029")]
NOTHING = object()


def last(text: str) -> object:
    """The value that is kept, as the kernel runs the pieces."""
    namespace: dict[str, Any] = {}
    for piece in compile_code(text, "<code>"):
        exec(piece, namespace)  # noqa: S102
    return namespace.pop(NAME, NOTHING)


@every_row(
    ("text", "expected"),
    [
        ("6*7", 42),
        ("6*7\n", 42),
        ("x = 1\nx + 1  # the next\n# a remark\n\n", 2),
        ("x = 1; x + 1", 2),
        ("x = [\n1,\n2,\n]\nsum(\n    x\n)", 3),
        ("x = 1\r\nx + 1\r\n", 2),
        ("'''a\nb'''", "a\nb"),
        ("x = 'a'\n'''\nx = 1\n# '''", "\nx = 1\n# "),
        ("x = 3\nx + \\\n1", 4),
        ("x = 3\n(x\n+ 1)", 4),
        ("from __future__ import annotations\n1 if True else 2", 1),
        ("def f() -> int:\n    return 5\nf()", 5),
        ("x = 1\nx == 2", False),
        ("dict(\nx = 1)", {"x": 1}),
        ("dict(a=1,\nx = (2))", {"a": 1, "x": 2}),
        ("'''\nx = 1'''", "\nx = 1"),
        ("dict(a=1,\nx = 2 # (\n)", {"a": 1, "x": 2}),
        ("f = [(1)]\nx = f[0]", NOTHING),
        ("f = dict(\nx = 1)", NOTHING),
        ("x = 1; y = 2", NOTHING),
        ("None", None),
        ("x = 1", NOTHING),
        ("x = 3\ny = x + \\\n1", NOTHING),
        ("1;", NOTHING),
        ("x = 1\nx; \n", NOTHING),
        ("", NOTHING),
        ("# nothing", NOTHING),
        ("if True:\n    6*7", NOTHING),
        ("if False:\n    1\nelse:\n    6*7", NOTHING),
        ("def f():\n    1", NOTHING),
        ("s = '''\n6*7\n#'''", NOTHING),
        ("s = '''\n6*7\n'''", NOTHING),
        ("import math", NOTHING),
        ("x: int = 6*7", NOTHING),
    ],
)
def test_the_last_expression_is_kept_and_no_other(text: str, expected: object) -> None:
    assert last(text) == expected


@every_row(
    "text",
    [
        "x = (\n6*7",
        "return 1\n6*7",
        "s = '''\n6*7",
        "f(\nx = 1",
        "s = '''\nx = 1",
        "6*7\n x",
        "@f\n6*7",
        "try:\n    1\n6*7",
        "f(\\\n",
    ],
)
def test_what_does_not_compile_says_what_it_always_said(text: str) -> None:
    def said(compiled: Any) -> tuple[str, int | None]:
        with pytest.raises(SyntaxError) as caught:
            compiled()
        return caught.value.msg, caught.value.lineno

    whole = said(lambda: compile(text, "<code>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True))
    assert said(lambda: compile_code(text, "<code>")) == whole


def test_lines_and_columns_stay_and_warnings_come_once() -> None:
    code = "x = 1\n\ny = 2\n(x\n + undefined)\n"
    with pytest.raises(NameError) as caught:
        last(code)
    frame = caught.tb
    while frame.tb_next is not None:
        frame = frame.tb_next
    assert frame.tb_lineno == 5
    positions = list(frame.tb_frame.f_code.co_positions())[frame.tb_lasti // 2]
    assert positions == (5, 5, 3, 12)
    for text in ("import re\nre.findall('\\d', 'a')", "x = '\\d'"):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            compile_code(text, "<code>")
        assert [one.lineno for one in heard] == [text.count("\n") + 1]


def test_a_last_statement_without_end_is_not_looked_at() -> None:
    assert last("x = 0\n" * 50_000 + "x + 1") == 1
    assert last(f"len('''{'y' * TREE_CHARS_MAX}''')") is NOTHING
    assert last("x = '''" + "a\n" * 5000 + "'''\nlen(x)") == 10_000
    assert last("len('''" + "a b\n" * 1000 + "''')") == 4000


async def test_the_kernel_hands_the_last_expression_over(kernel: Probe) -> None:
    for code, expected in (
        ("6*7", b"42"),
        ("import asyncio\nawait asyncio.sleep(0, [1])", b"[1]"),
        ("import asyncio\nasync def f(): return {'a': 1}\nasyncio.run(f())", b'{"a":1}'),
        (
            "import contextvars as c\nv = c.ContextVar('v')\nimport asyncio\nawait asyncio.sleep(0)\nv.set(3)\nv.get()",
            b"3",
        ),
        ("kept = 5\nkept", b"5"),
        ("print('x')", b""),
        ("kept = 6", b""),
        ("kept;", b""),
        ("import sys\nsys.exit(0)\n7", b""),
        ("globals().keys() & {'<last>'} or len([n for n in globals() if '<' in n])", b"0"),
    ):
        run = await kernel.run(code)
        assert run.done is not None
        assert (run.done.error, run.done.has_result, run.done.has_last, run.body, run.done.note) == (
            None, False, expected != b"", expected, "",
        ), code  # fmt: skip
    many = "\n".join(f"n{n} = 0" for n in range(300))  # more names than one byte counts
    for code, handed_over in (("result = 1", True), ("result = 1", True), ("kept = result", False),
                              (f"{many}\nresult = 1", True), (f"{many}\nkept = result", False),
                              ("def f():\n    global result\n    result = 1\nf()", True)):  # fmt: skip
        run = await kernel.run(code)
        assert (run.done and run.done.has_result, run.body) == (handed_over, b"1" if handed_over else b""), code
    run = await kernel.run("result = 1\n2")
    assert (run.result, run.done and run.done.has_last) == (1, False)
    run = await kernel.run("1/0\n2")
    assert run.error == ("ZeroDivisionError", "division by zero")


async def test_what_cannot_be_handed_over_is_a_note(kernel: Probe) -> None:
    for code, note in (
        ("{1, 2}", "the last expression is a set, which JSON cannot hold; use sorted(...) or list(...)"),
        (
            "[1, {'a': object}]",
            "the last expression[1]['a'] is a type, which JSON cannot hold; call it and return what it ",
        ),
        (
            "async def f(): pass\nf()",
            "the last expression is a coroutine, which JSON cannot hold; write `await` before",
        ),
        (
            "list(range(10**6))",
            "the last expression is more than 200 bytes of JSON; return a summary, or write the data",
        ),
        ("'x' * 10**8", "the last expression is more than 200 bytes of JSON; return a summary"),
        ("'x' * 199", "the last expression is more than 200 bytes"),
        (
            "class A:\n    def __moonpool_json__(self): raise KeyError(7)\nA()",
            "the last expression cannot be made JSON (7)",
        ),
        (
            "from client.results import ToolCallResult as R\nR({'ok': False}, 's.t')",
            "is the result of a tool call that failed (s.t: Internal)",
        ),
    ):
        run = await kernel.run(code, result_bytes_max=200)
        assert run.done is not None
        assert (run.done.error, run.done.has_last, run.body) == (None, False, b""), code
        assert run.done.note.startswith("nothing is returned: the last expression"), run.done.note
        assert note in run.done.note
    run = await kernel.run("'x' * 198", result_bytes_max=200)
    assert len(run.body) == 200
