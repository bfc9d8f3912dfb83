"""Code is compiled as it is: texts, line numbers, `from __future__`; tracebacks show the code alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sandboxes.probe import Probe

NOT_UTF_8 = "'utf-8' codec can't decode byte 0xff in position 5: invalid start byte"

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-031")]


async def test_triple_quoted_text_is_unchanged(kernel: Probe) -> None:
    text = 'first\n  indented\n\ttab "quoted"\n\n    last'
    assert (await kernel.run(f'result = """{text}"""')).result == text
    assert (await kernel.run(f"import asyncio\nawait asyncio.sleep(0)\nresult = '''{text}'''")).result == text


async def test_future_imports_work_where_they_stand(kernel: Probe) -> None:
    code = '"""Doc."""\nfrom __future__ import annotations\ndef f(x: Nowhere): ...\nresult = f.__annotations__["x"]'
    assert (await kernel.run(code)).result == "Nowhere"
    run = await kernel.run("def f(x: Nowhere): ...")
    assert run.error == ("NameError", "name 'Nowhere' is not defined")


@pytest.mark.parametrize("top", ["", "import asyncio\nawait asyncio.sleep(0)"])
async def test_a_traceback_has_the_right_lines_and_no_frame_of_ours(kernel: Probe, top: str) -> None:
    code = f"""{top}

def outer(value):
    return inner(value)

def inner(value):
    return 1 / value  # here

outer(0)
"""
    run = await kernel.run(code)
    lines = code.splitlines()
    assert run.error == ("ZeroDivisionError", "division by zero")
    assert run.stderr.startswith("Traceback (most recent call last):\n")
    frames = (("<module>", "outer(0)"), ("outer", "return inner(value)"), ("inner", "return 1 / value  # here"))
    for function, source in frames:
        number = next(index for index, line in enumerate(lines, 1) if line.strip() == source)
        assert f'  File "<code>", line {number}, in {function}\n    {source}\n' in run.stderr
    assert run.stderr.count("  File ") == 3


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import asyncio\nasync def main():\n    1/0\nasyncio.run(main())", id="asyncio.run"),
        pytest.param(
            "import asyncio\nawait asyncio.sleep(0)\nasync def f():\n    1/0\nasyncio.run(f())", id="nested run"
        ),
        pytest.param("try:\n    1/0\nexcept ValueError: pass\nfinally:\n    x = 1", id="finally"),
        pytest.param("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e", id="cause"),
        pytest.param("try:\n    1/0\nexcept ZeroDivisionError:\n    {}['k']", id="context"),
        pytest.param("raise ExceptionGroup('g', [ValueError(1), ExceptionGroup('h', [KeyError(2)])])", id="group"),
        pytest.param(
            "import asyncio\nasync def f(): 1/0\nasync with asyncio.TaskGroup() as g: g.create_task(f())",
            id="task group",
        ),
        pytest.param(
            "from moonpool_guest.toolcalls import invoke_sync\ninvoke_sync('s', 't', None, 'extra')",
            id="ours is called",
        ),
    ],
)
async def test_no_traceback_shows_frames_of_the_kernel(kernel: Probe, code: str) -> None:
    run = await kernel.run(code)
    assert run.done is not None
    assert run.done.status == "error"
    assert 'File "<code>", line' in run.stderr
    assert "moonpool_guest/" not in run.stderr


@pytest.mark.req("H-031")
async def test_a_traceback_leaves_out_libraries_and_what_they_raised_among_themselves(kernel: Probe) -> None:
    run = await kernel.run(
        "import contextlib, urllib.request\ndef get(url):\n    return urllib.request.urlopen(url)\n"
        "with contextlib.suppress(KeyError):\n    get('http://192.0.2.1/')"
    )
    assert run.stderr.count("Traceback") == 1
    assert [line for line in run.stderr.splitlines() if line.startswith("  File")] == [
        '  File "<code>", line 5, in <module>',
        '  File "<code>", line 3, in get',
    ]
    assert len(run.stderr) < 400
    run = await kernel.run(
        "import json\ntry:\n    json.loads('{')\nexcept ValueError as e:\n    raise KeyError('k') from e"
    )
    assert run.stderr.count("Traceback") == 2  # the code's own frame is in both
    assert "json/decoder" not in run.stderr
    run = await kernel.run("def f():\n    exec(compile('raise KeyError', 'pandas/_libs/index.pyx', 'exec'))\nf()")
    assert run.stderr.count("  File ") == 2
    run = await kernel.run("raise KeyError('k') from ValueError('never raised, but said')")
    assert "ValueError: never raised, but said" in run.stderr


async def test_a_call_that_nobody_awaits_is_said_not_to_have_been_made(kernel: Probe) -> None:
    never = "was never awaited, so nothing of it was done; write `await` before the call\n"
    run = await kernel.run("async def call(): ...\ncall()\nkept = call()\nresult = 1")
    assert run.result == 1
    assert f"<code>:2: RuntimeWarning: coroutine 'call' {never}  call()\n" in run.stderr
    assert f"RuntimeWarning: coroutine 'call' in 'kept' {never}" in run.stderr
    run = await kernel.run("await kept")
    assert run.done is not None
    assert (run.done.error, run.stderr) == (None, "")
    run = await kernel.run("async def call(): ...\ncall()")  # the last expression
    assert run.stderr == f"RuntimeWarning: coroutine 'call' {never}"


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        pytest.param("x = (", "SyntaxError", "'(' was never closed (line 1)", id="bracket"),
        pytest.param("\nx = '", "SyntaxError", "unterminated string literal (detected at line 2)", id="its own"),
        pytest.param("\n\ndef f(:\n  pass", "SyntaxError", "invalid syntax (line 3)", id="line"),
        pytest.param("  x\n", "IndentationError", "unexpected indent (line 1)", id="indent"),
        pytest.param("return 1", "SyntaxError", "'return' outside function (line 1)", id="return"),
        pytest.param(b"x = '\xff'", "UnicodeDecodeError", NOT_UTF_8, id="not UTF-8"),
        pytest.param("(" * 300 + ")" * 300, "SyntaxError", "too many nested parentheses (line 1)", id="nested"),
    ],
)  # fmt: skip
async def test_code_that_does_not_compile_says_why_and_where(
    kernel: Probe, code: str | bytes, kind: str, message: str
) -> None:
    run = await kernel.run(code)
    assert run.error == (kind, message)
    assert kind in run.stderr
    assert "moonpool_guest" not in run.stderr
    assert (await kernel.run("result = 1")).result == 1


@pytest.mark.parametrize(
    "code", [b"", b"\n", b"# only a comment", b"\xef\xbb\xbfresult = 1", b"result = 1\r\nx = 2\r\n"]
)
async def test_odd_but_valid_code_runs(kernel: Probe, code: bytes) -> None:
    run = await kernel.run(code)
    assert run.done is not None
    assert run.done.status == "ok"


async def test_a_megabyte_of_code_runs(kernel: Probe) -> None:
    assert (await kernel.run("x = 1\n" * 40_000 + f"result = '{'y' * 1_000_000}'[:3]")).result == "yyy"


async def test_pickle_dataclasses_and_getsource_work_in_main(kernel: Probe) -> None:
    code = """
import dataclasses, inspect, pickle, typing
@dataclasses.dataclass
class Point:
    x: int
def f():
    return 1  # one
again = pickle.loads(pickle.dumps(Point(1)))
result = [again == Point(1), inspect.getsource(f), Point.__module__, typing.get_type_hints(Point)["x"] is int]
"""
    assert (await kernel.run(code)).result == [True, "def f():\n    return 1  # one\n", "__main__", True]


async def test_names_of_the_kernel_are_not_in_the_namespace(kernel: Probe) -> None:
    run = await kernel.run("result = sorted(globals())")
    assert run.result == ["__builtins__", "__doc__", "__loader__", "__name__", "__package__", "__spec__"]


async def test_an_error_whose_texts_are_broken_or_huge_still_ends_the_execution(kernel: Probe) -> None:
    run = await kernel.run("class E(Exception):\n    def __str__(self): raise ValueError\nraise E")
    assert run.error == ("E", "<E whose text cannot be shown>")
    run = await kernel.run("raise type('N' * 5000, (Exception,), {})('\\U0001F600\\1' * 50_000)")
    assert [text.endswith("... (cut)") for text in run.error] == [True, True]
    assert max(map(len, run.error)) <= 2000
    run = await kernel.run("raise ValueError('\\ud800')")
    assert run.error == ("ValueError", "?")


async def test_a_source_line_of_an_earlier_execution_is_that_execution_s(kernel: Probe) -> None:
    await kernel.run("def f():\n    raise ValueError('from the first')")
    run = await kernel.run("\n\nf()")
    assert "raise ValueError" in run.stderr or "line 2, in f" in run.stderr
