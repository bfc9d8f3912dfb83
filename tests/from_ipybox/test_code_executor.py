"""`CodeExecutor` as ipybox documents it. IPython's part is in one test, because its zygote takes seconds to start."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

import moonpool
from apps import fixture_server
from moonpool.ipybox import (
    ApprovalRequest,
    CodeExecutionChunk,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutor,
    generate_mcp_sources,
)
from moonpool.ipybox.options import ExecutorOptions
from moonpool.ipybox.utils import find_free_port
from moonpool.settings import Settings
from waiting import until

pytestmark = pytest.mark.anyio

CALL = """
from mcptools.echo.text import Params, run
print(run(Params(text="hi")))
"""
SERVER = {key: value for key, value in fixture_server("echo.py").items() if key != "moonpool"}


async def items_of(executor: CodeExecutor, code: str, **options: Any) -> list[Any]:
    return [item async for item in executor.stream(code, **options)]


async def rejected(executor: CodeExecutor, code: str) -> None:
    async for item in executor.stream(code):
        await item.reject()


def test_other_ways_are_closed_only_where_commands_are_asked_about() -> None:
    with pytest.raises(ValueError, match="require_shell_escape=True requires approve_shell_cmds=True"):
        CodeExecutor(require_shell_escape=True)


@pytest.mark.req("I-032", "I-033", "I-034", "I-037", "I-038", "I-044", "I-048", "I-026", "X-07", "X-16")
async def test_the_examples_of_code_execution() -> None:
    async with CodeExecutor() as executor:
        assert (await executor.execute("print('hello world')")).text == "hello world"
        for code in ("import math\ndef twice(n): return 2 * n\nx = 42", "", " \n"):
            assert await executor.execute(code) == CodeExecutionResult(text=None, images=[])
        code = "print('chunk 1', flush=True)\nfrom time import sleep\nsleep(0.05)\nprint('chunk 2')"
        *chunks, last = await items_of(executor, code, chunks=True)
        assert all(isinstance(chunk, CodeExecutionChunk) for chunk in chunks)
        assert last == CodeExecutionResult(text="chunk 1\nchunk 2", images=[])
        assert "".join(chunk.text for chunk in chunks).strip() == last.text
        assert await items_of(executor, "print(x)") == [CodeExecutionResult(text="42", images=[])]
        assert (await executor.execute("print(twice(x), math.floor(1.5))")).text == "84 1"
        for code, told in (("1 / 0", "ZeroDivisionError: division by zero\nTraceback"), ("for", "SyntaxError")):
            with pytest.raises(CodeExecutionError, match=told):
                await executor.execute(code)
        assert (await executor.execute("import asyncio; await asyncio.sleep(0); print(x)")).text == "42"
        assert (await executor.execute("result = object()\nprint('fine')")).text == "fine"
        assert len((await executor.execute("print('x' * 500_000)")).text or "") == 500_000
        await executor.reset()
        code = "try:\n    print(x)\nexcept NameError:\n    print('x not defined')"
        assert (await executor.execute(code)).text == "x not defined"


async def test_starts_and_ends_at_the_same_time_leave_one_kernel_or_none() -> None:
    executor = CodeExecutor()
    outcomes = await asyncio.gather(executor.start(), executor.start(), return_exceptions=True)
    assert [type(one) for one in outcomes] == [type(None), RuntimeError]
    first = executor._kernel
    await asyncio.gather(executor.reset(), executor.reset())
    assert executor._kernel not in {None, first}
    await asyncio.gather(executor.reset(), executor.stop())
    assert executor._kernel is None


async def test_closing_a_stream_waits_for_the_end_of_its_code() -> None:
    async with CodeExecutor() as executor:
        stream = executor.stream("print('on', flush=True)\nimport time; time.sleep(600)", chunks=True)
        async for _ in stream:
            break
        with anyio.fail_after(60):
            await stream.aclose()
        assert executor._kernel is not None
        assert not executor._kernel._running


@pytest.mark.req("I-042", "I-071", "P-019")
async def test_the_kernel_has_the_variables_it_was_given_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_PARENT", "secret")
    async with CodeExecutor(kernel_env={"TEST_VAR": "test_val"}) as executor:
        code = "import os; print(os.environ['TEST_VAR'], os.environ['TERM'], 'OF_THE_PARENT' in os.environ)"
        assert (await executor.execute(code)).text == "test_val dumb False"
        with pytest.raises(CodeExecutionError, match="KernelExited"):
            await executor.execute("import os; os._exit(1)")
        assert (await executor.execute(code)).text == "test_val dumb False"


@pytest.mark.req("I-039", "P-002")
async def test_a_timeout_names_its_limit_and_the_kernel_lives_on() -> None:
    async with CodeExecutor() as executor:
        await executor.execute("x = 1")
        with pytest.raises(TimeoutError, match=r"0\.20s"):
            await executor.execute("while True: pass", timeout=0.2)
        assert (await executor.execute("print(x)")).text == "1"


async def test_what_code_prints_or_raises_is_not_taken_for_what_moonpool_says() -> None:
    message = "the code did not end within 0.3 s; do less at a time or ask for a longer timeout"
    async with CodeExecutor(kernel_env={"OWN": "1"}) as executor:
        with pytest.raises(TimeoutError):
            await executor.execute(f"import sys\nprint({message!r}, file=sys.stderr)\nwhile True: pass", timeout=0.3)
        for name in ("Timeout", "ResultNotSerializable", "OutputTooLarge", "SandboxError"):
            raising = f"class {name}(Exception): pass\nraise {name}('the variables of this session are lost')"
            with pytest.raises(CodeExecutionError, match=name):
                await executor.execute(f"before = __import__('sys').path[:]\n{raising}")
            assert (
                await executor.execute("import sys\nprint(sys.path == before)")
            ).text == "True"  # not prepared again
        with pytest.raises(CodeExecutionError, match="KernelExited"):
            await executor.execute("import os; os._exit(1)")
        assert (await executor.execute("import os; print(os.environ['OWN'])")).text == "1"


@pytest.mark.req("I-029")
async def test_it_starts_and_stops_as_often_as_one_likes() -> None:
    executor = CodeExecutor(tool_server_port=1, kernel_gateway_port=2)
    await executor.stop()
    with pytest.raises(RuntimeError, match="not started"):
        await executor.execute("1")
    for _ in range(2):
        await executor.start()
        with pytest.raises(RuntimeError, match="runs already"):
            await executor.start()
        assert (await executor.execute("print(1)")).text == "1"
        await executor.stop()
        await executor.stop()
    assert logging.getLogger("moonpool.ipybox").level == logging.WARNING


@pytest.mark.req("I-047")
async def test_cancelling_ends_what_runs_and_keeps_the_state() -> None:
    async with CodeExecutor() as executor:
        executor.cancel()  # nothing runs
        await executor.execute("x = 7")
        with anyio.fail_after(60):
            seen: list[Any] = []
            async for item in executor.stream("print('on', flush=True)\nwhile True: pass", chunks=True, timeout=50):
                seen.append(item)
                executor.cancel()
            assert [type(item) for item in seen] == [CodeExecutionChunk]
            running = asyncio.ensure_future(executor.execute("while True: pass"))
            await asyncio.sleep(0)
            executor.cancel()
            assert await running == CodeExecutionResult(text=None, images=[])
            async for _ in executor.stream("print('on', flush=True)\nwhile True: pass", chunks=True):
                break
            assert (await executor.execute("print(x)")).text == "7"


ON = "print('on', flush=True)\nwhile True: pass"


async def leave_by_break(executor: CodeExecutor) -> None:
    async for _ in executor.stream(ON, chunks=True):
        break


async def leave_by_exception(executor: CodeExecutor) -> None:
    async for _ in executor.stream(ON, chunks=True):
        raise KeyError("the application's own")


async def leave_by_cancellation(executor: CodeExecutor) -> None:
    async for _ in executor.stream(ON, chunks=True):
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await asyncio.Event().wait()


@pytest.mark.req("I-047")
@pytest.mark.parametrize("leave", [leave_by_break, leave_by_exception, leave_by_cancellation])
async def test_leaving_a_stream_ends_what_runs_and_leaves_nothing_behind(leave: Any) -> None:
    async with CodeExecutor() as executor:
        await executor.execute("x = 7")
        before = asyncio.all_tasks()
        with anyio.fail_after(60):
            for _ in range(2):
                left = asyncio.ensure_future(leave(executor))
                await asyncio.wait({left})
                assert left.cancelled() or isinstance(left.exception(), KeyError | None)
                del left  # and with its traceback, the stream
                assert (await executor.execute("print(x)")).text == "7"
            await until(lambda: asyncio.all_tasks() == before)


@pytest.mark.req("X-14")
async def test_the_only_limit_without_one_of_the_caller_is_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ExecutorOptions(environment="base")
    month_s = 30 * 86_400
    for environ, limit_s in (
        ({}, month_s),
        ({"MOONPOOL_TIMEOUT_S": "7"}, 7),
        ({"MOONPOOL_TIMEOUT_S_MAX": "900"}, Settings.load({}).timeout_s),
    ):
        assert options.settings(environ).timeout_s == limit_s
    monkeypatch.setenv("MOONPOOL_TIMEOUT_S", "0.2")
    async with CodeExecutor() as executor:
        with anyio.fail_after(60), pytest.raises(TimeoutError):
            await executor.execute("while True: pass")


@pytest.mark.req("I-030", "I-031", "I-037", "I-050", "I-051", "I-052", "I-041", "P-037")
async def test_calls_wait_for_an_answer_and_execute_gives_it(project: Path) -> None:
    assert "text" in await generate_mcp_sources("echo", SERVER, Path("mcptools"))
    async with CodeExecutor() as executor:
        assert (await executor.execute(CALL)).text == "hi"
        kinds: list[type] = []
        decided: list[bool] = []
        async for item in executor.stream(CALL, chunks=True, timeout=30):
            kinds.append(type(item))
            if isinstance(item, ApprovalRequest):
                assert (item.server_name, item.tool_name, item.tool_args) == ("echo", "text", {"text": "hi"})
                assert str(item) == "echo.text(text='hi')"
                item.on_decision(decided.append)
                await item.accept()
                await item.reject()  # too late
                assert await item.response()
        assert kinds == [ApprovalRequest, CodeExecutionChunk, CodeExecutionResult]
        assert decided == [True]
        with pytest.raises(CodeExecutionError, match=r"(?s)ApprovalRejected.*ApprovalRejectedError"):
            await rejected(executor, CALL)
        with anyio.fail_after(60):
            async for item in executor.stream(CALL):
                assert isinstance(item, ApprovalRequest)
                executor.cancel()
        with pytest.raises(CodeExecutionError, match="it went wrong"):
            await executor.execute("from mcptools.echo import fail\nfail.run({})")
        assert (await executor.execute(CALL)).text == "hi"
        await executor.reset()
        assert (await executor.execute(CALL)).text == "hi"
    async with CodeExecutor(approval_timeout=0.2) as executor:
        with pytest.raises(CodeExecutionError, match="nobody answered within"):
            await items_of(executor, CALL)
    async with CodeExecutor(approve_tool_calls=False) as executor:
        assert await items_of(executor, CALL) == [CodeExecutionResult(text="hi", images=[])]


async def test_the_programs_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/coming-from-ipybox.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].partition("```")[0], names)  # noqa: S102  our own page
    await names["main"](SERVER)
    assert capsys.readouterr().out == "echo.text(text='hello')\nhello\n"
    port = await asyncio.to_thread(find_free_port)  # another test may use the page's
    exec(page.split("```python\n")[2].partition("```")[0].replace("8900", str(port)), names)  # noqa: S102  our own page
    await names["call_outside"](SERVER)
    assert capsys.readouterr().out == "hello\n"


@pytest.mark.req("X-06")
async def test_what_policy_denies_or_keeps_for_a_person_is_never_accepted_by_itself(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = project / "policy.toml"
    rules.write_text(
        'version = 1\n[[rule]]\nid = "a"\nserver = "echo"\ntool = "text"\nverdict = "human_only"\n'
        '[[rule]]\nid = "b"\nserver = "echo"\ntool = "fail"\nverdict = "deny"\n',
        encoding="utf-8",
    )
    await generate_mcp_sources("echo", SERVER, Path("mcptools"))
    monkeypatch.setenv("MOONPOOL_POLICY", str(rules))
    for asks in (True, False):
        async with CodeExecutor(approve_tool_calls=asks) as executor:
            with pytest.raises(CodeExecutionError, match=r"(?i)reject"):
                await executor.execute(CALL)
            with pytest.raises(CodeExecutionError, match=r"PolicyDenied|policy"):
                await executor.execute("from mcptools.echo import fail\nfail.run({})")
            if asks:
                async for item in executor.stream("from mcptools.echo import text\ntext.run({'text': 'hi'})"):
                    if isinstance(item, ApprovalRequest):
                        with pytest.raises(moonpool.ApprovalAnswerError, match="person"):
                            await item.accept()
                        executor.cancel()


@pytest.mark.slow  # builds the environment data
@pytest.mark.timeout(300)
@pytest.mark.req("I-035", "I-036", "I-049")
async def test_ipython_in_the_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MOONPOOL_ENVIRONMENT")
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9])\nplt.show()"
    async with CodeExecutor(images_dir=tmp_path / "made", kernel_env={"A": "1"}) as executor:
        result = await executor.execute(plot)
        assert [image.suffix for image in result.images] == [".png"]
        assert result.images[0].read_bytes().startswith(b"\x89PNG")
        code = "print(1, flush=True)\nimport sys; print(2, file=sys.stderr, flush=True)\n6 * 7"
        assert (await executor.execute(code)).text == "1\n2\n42"
        table = "import pandas as pd\nprint('a')\ndisplay(pd.DataFrame({'x': [1]}))\nprint('b')"
        assert (await executor.execute(table)).text == "a\n   x\n0  1\nb"
        assert (await executor.execute(f"{table}\npd.Series([2])")).text == "a\n   x\n0  1\nb\n0    2\ndtype: int64"
        assert (await executor.execute("!echo $A")).text == "1"
        assert (await executor.execute("import pandas as pd\npd.DataFrame({'a': [1]})")).text == "a\n0  1"
        assert (await executor.execute("print(get_ipython().__class__.__name__)")).text == "InteractiveShell"
