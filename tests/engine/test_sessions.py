"""Sessions keep state, take turns, survive errors and start afresh after a death."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import anyio
import pytest

from apps import open_app, run
from moonpool.core.errors import InputError
from moonpool.engine import execution
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.runs import InterruptedRunError, Run
from moonpool.pipeline.budgets import SessionMemory
from moonpool.sandboxes.base import Stream
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

pytestmark = pytest.mark.anyio


def code(text: str, **request: object) -> CodeRequest:
    return CodeRequest(code=text.encode(), **request)  # pyright: ignore[reportArgumentType]


async def test_variables_and_files_survive_an_exception_and_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "GRACE_S", 20)
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        await session.execute(code("x = 41; open('note', 'w').write('kept')"))
        failed = await session.execute(code("1/0"))
        late = await session.execute(code("while True: pass", timeout_s=0.3))
        last = await session.execute(code("result = [x + 1, open('note').read()]"))
        await session.close()
    assert failed.error is not None
    assert failed.error.type == "ZeroDivisionError"
    assert late.error is not None
    assert late.error.type == "Timeout"
    assert last.data == [42, "kept"]


async def test_a_death_is_reported_and_the_next_execution_starts_afresh() -> None:
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        await session.execute(code("x = 1"))
        died = await session.execute(code("import os; os._exit(3)"))
        after = await session.execute(code("result = 'x' in globals()"))
        await session.close()
    assert died.error is not None
    assert "variables of this session are lost" in died.error.message
    assert died.extras["exit_code"] == 3
    assert after.data is False


async def test_executions_of_one_session_take_turns() -> None:
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        results: list[object] = []

        async def one(number: int) -> None:
            text = f"import time; seen = globals().setdefault('seen', []); seen.append({number}); result = len(seen)"
            results.append((await session.execute(code(text))).data)

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(one, number)
        await session.close()
    assert sorted(results) == [1, 2, 3, 4, 5]  # pyright: ignore[reportArgumentType]


async def test_a_result_of_an_earlier_execution_is_not_handed_over_again() -> None:
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        first = await session.execute(code("result = 5"))
        second = await session.execute(code("y = 1"))
        third = await session.execute(code("result = 5"))
        await session.close()
    assert [first.data, second.data, third.data] == [5, None, 5]


@pytest.mark.req("H-029")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("print('working'); print('{\"a\": 1}')", {"a": 1}, id="last line is JSON"),
        pytest.param("print('{\"a\": 1}'); print('bye')", None, id="last line is text"),
        pytest.param("print('[1]'); result = 2", 2, id="result wins"),
        pytest.param("print('[1]'); result = None", None, id="None is a result too"),
        pytest.param("pass", None, id="neither"),
        pytest.param("print('NaN')", None, id="NaN is not JSON"),
    ],
)
async def test_data_is_result_or_else_the_last_line(text: str, expected: object) -> None:
    async with open_app() as app:
        envelope = await run(app, text)
    assert envelope.error is None
    assert envelope.data == expected


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        pytest.param(b"", "no code to run", id="nothing"),
        pytest.param(b" \n\t", "no code to run", id="blank"),
        pytest.param(b"x = '\xff'", "not UTF-8", id="not UTF-8"),
        pytest.param(b"#" * 1_000_001, "1,000,001 bytes", id="too large"),
        pytest.param(b"x = 1\0", "NUL", id="NUL"),
    ],
)
async def test_code_that_cannot_be_run_is_refused_with_one_sentence(data: bytes, complaint: str) -> None:
    async with open_app() as app:
        with pytest.raises(InputError, match=complaint):
            await app.runtime.run(CodeRequest(code=data), app.caller_grant)


async def test_code_may_be_given_as_text() -> None:
    async with open_app() as app:
        assert (await app.runtime.run(CodeRequest(code="result = 'ä'"), app.caller_grant)).data == "ä"  # type: ignore[arg-type]
    for code, complaint in (("'\ud800'", "half a surrogate pair"), (None, "NoneType; give it as text or bytes")):
        with pytest.raises(InputError, match=complaint):
            CodeRequest(code=code)  # type: ignore[arg-type]


@pytest.mark.req("X-07")
async def test_output_streams_while_the_code_runs() -> None:
    heard: list[tuple[Stream, bytes]] = []
    async with open_app() as app:
        text = "import sys\nprint('one')\nprint('two', file=sys.stderr)"
        await run(app, text, observer=lambda stream, data: heard.append((stream, data)))
    assert (Stream.STDOUT, b"one\n") in heard
    assert (Stream.STDERR, b"two\n") in heard


async def test_a_cancelled_execution_leaves_no_sandbox() -> None:
    async with open_app() as app:
        started = anyio.Event()
        with anyio.move_on_after(10) as scope:
            async with anyio.create_task_group() as tasks:

                async def endless() -> None:
                    await run(app, "print('go', flush=True)\nwhile True: pass", observer=lambda *_: started.set())

                tasks.start_soon(endless)
                await started.wait()
                tasks.cancel_scope.cancel()
        assert not scope.cancelled_caught
        envelope = await run(app, "result = 'next'")
    assert envelope.data == "next"


async def test_the_audit_journal_holds_start_and_end_of_every_execution() -> None:
    async with open_app() as app:
        envelope = await run(app, "result = 1")
        from moonpool.store.journal_reading import read_rows
        from moonpool.store.paths import journal_path

        rows = await anyio.to_thread.run_sync(lambda: list(read_rows(journal_path(app.data), run_id=envelope.run_id)))
    assert [row.kind for row in rows] == ["execution_start", "execution_end"]


async def test_a_cancelled_execution_has_its_end_on_record() -> None:
    name = f"cancelled-{uuid.uuid4().hex}"
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant, name)
        started = anyio.Event()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                request = code("print('go', flush=True)\nwhile True: pass", observer=lambda *_: started.set())
                tasks.start_soon(session.execute, request)
                await started.wait()
                tasks.cancel_scope.cancel()
        await session.close()
        rows = await anyio.to_thread.run_sync(lambda: [row.to_json() for row in read_rows(journal_path(app.data))])
    run_id = next(row["run_id"] for row in rows if row.get("session_id") == name)
    end = next(row for row in rows if row["run_id"] == run_id and row["kind"] == "execution_end")
    assert end["error_type"] == "Cancelled"


async def test_an_interrupt_ends_the_wait_for_a_sandbox_and_a_cancellation_beside_it_goes_on() -> None:
    async with open_app() as app:

        def waiting(run: Run) -> asyncio.Task[int]:
            async def wait() -> int:
                forever: Any = asyncio.Event().wait()
                with pytest.raises(InterruptedRunError):
                    await run.opening(forever)
                task = asyncio.current_task()
                assert task is not None
                return task.cancelling()

            return asyncio.ensure_future(wait())

        async with asyncio.timeout(10):
            for cancelled in (False, True):
                run = Run(app.runtime, app.caller_grant, "s", CodeRequest(code=b"pass"), SessionMemory())
                task = waiting(run)
                await asyncio.sleep(0)
                run.interrupt(at_once=False)
                if cancelled:
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                else:
                    assert await task == 0, "the task that waited is not being cancelled any more"
