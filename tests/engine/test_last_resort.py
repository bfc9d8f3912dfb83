"""One start, one end, one envelope: whatever code prints or hands over, whatever it is called, whatever fails in us."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server, open_app, run
from engine.test_hostile_guests import SPEAK
from moonpool.core.audit import JournalError
from moonpool.core.audit_records import ExecutionEndRecord, ExecutionStartRecord
from moonpool.core.errors import InputError
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.runs import NAME_CHARS_MAX
from moonpool.features.plans.model import PlanError, PlanState
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope

pytestmark = pytest.mark.anyio

PRINTED = {
    "bash": r"""printf '%s\n' '"\ud800"'""",
    "node": r"""console.log('"\\ud800"')""",
    "python": r"""print('"\\ud800"')""",
}
FORGED = {
    "half a pair": b'"\\ud800"',
    "half a pair as a key": b'{"\\uDFFF": 1}',
    "half a pair in bytes": b'"\xed\xa0\x80"',
    "half a pair in UTF-16": '["\ud800\u0480"]'.encode("utf-16-le", "surrogatepass"),
    "out of range": b"[1e999]",
    "out of range, negative": b'{"a": -1E+999}',
    "too many digits": b"1" * 5000,
    "nesting": b"[" * 100 + b"]" * 100,
    "constant": b"[NaN]",
    "not one value": b"1 2",
}


async def rows_of(app: Tenant, envelope: Envelope) -> list[str]:
    """What is on record of an execution: its start and its end, and nothing else."""
    rows = await asyncio.to_thread(list, read_rows(journal_path(app.data), run_id=envelope.run_id))
    return [row.kind for row in rows]


BOTH = ["execution_start", "execution_end"]


@pytest.mark.parametrize("backend", ["zygote", "bubblewrap"])
async def test_half_a_character_that_is_printed_is_an_ordinary_line(backend: str) -> None:
    settings = {} if backend == "zygote" else {"backend": backend}
    async with open_app(**settings) as app:
        for language, code in PRINTED.items():
            for dry_run in (False, True):
                envelope = await run(app, code, language=language, dry_run=dry_run)
                if envelope.error is not None and envelope.error.type == "LanguageUnavailable":
                    continue  # no Node here
                assert (envelope.error, envelope.data) == (None, None), language
                assert envelope.extras["stdout"] == '"\\ud800"\n'
                assert await rows_of(app, envelope) == BOTH


@pytest.mark.parametrize("backend", ["zygote", "bubblewrap"])
async def test_a_result_that_json_cannot_carry_everywhere_is_refused_where_it_is_read(backend: str) -> None:
    settings = {} if backend == "zygote" else {"backend": backend}
    async with open_app(**settings) as app:
        for name, body in FORGED.items():
            forged = f"say({{'t': 'done', 'run': run, 'status': 'ok', 'has_result': True}}, {body!r})"
            envelope = await run(app, SPEAK + forged)
            assert envelope.error is not None, name
            assert envelope.error.type == "ProtocolViolation", name
            assert envelope.error.message.startswith("the result is not usable JSON: "), envelope.error
            assert await rows_of(app, envelope) == BOTH


async def test_pairs_and_large_numbers_go_through() -> None:
    async with open_app() as app:
        envelope = await run(app, "print('[\"\\\\ud83d\\\\ude00\", 1e308, ' + '9' * 4000 + ']')")
    assert envelope.data == ["\N{GRINNING FACE}", 1e308, int("9" * 4000)]


async def test_an_error_without_a_name_is_on_record_as_an_error() -> None:
    async with open_app() as app:
        envelope = await run(app, "raise type('', (Exception,), {})('m')")
        rows = await asyncio.to_thread(list, read_rows(journal_path(app.data), run_id=envelope.run_id))
    assert envelope.error is not None
    assert envelope.error.type == "Exception"
    assert json.loads(rows[-1].body)["error_type"] == "Exception"


async def test_code_may_be_called_anything() -> None:
    names = ["\udcff\udcfe.py", "x" * 20_000, "a\0b", "\x01" * 5_000, "\\" * 5_000, "\N{GRINNING FACE}" * 5_000, ""]
    async with open_app() as app:
        for name in names:
            envelope = await run(app, "1/0", name=name)
            assert envelope.error is not None
            assert envelope.error.type == "ZeroDivisionError", repr(name[:20])
            assert await rows_of(app, envelope) == BOTH
        envelope = await run(app, "1/0", name="a" * NAME_CHARS_MAX + "/last.py")
        assert "/last.py" in str(envelope.extras["stderr"])


async def test_a_session_that_cannot_be_put_on_record_is_refused() -> None:
    async with open_app() as app:
        for name in ("\ud800", "a\nb", "x" * 201):
            with pytest.raises(InputError, match="cannot be the id of a session"):
                app.runtime.session(app.caller_grant, name)


class Starved:
    """Takes the place of the book of tokens on a machine that starts no thread any more."""

    def now(self, *_: Any) -> None: ...

    async def figures(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("can't start new thread")

    async def close(self) -> None: ...


class Failing:
    """A journal that fails at records of one kind."""

    def __init__(self, inner: Any, kind: type, error: Exception) -> None:
        self._inner, self._kind, self._error = inner, kind, error

    def record(self, entry: Any) -> Any:
        if isinstance(entry, self._kind):
            failed = asyncio.get_running_loop().create_future()
            failed.set_exception(self._error)
            failed.exception()
            return failed
        return self._inner.record(entry)


ECHO = "import servers.echo\nservers.echo.echo_sync(text='a')\nresult = 1"


async def test_a_failure_of_ours_is_an_envelope_with_an_end_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        assert (await session.execute(CodeRequest(code=b"x = 5"))).ok
        with monkeypatch.context() as broken:
            broken.setattr(app.runtime, "tokens", Starved())
            envelope = await session.execute(CodeRequest(code=b"result = 1"))
            one_shot = await run(app, "result = 1")
        again = await session.execute(CodeRequest(code=b"result = x"))
        await session.close()
        for one in (envelope, one_shot):
            assert one.error is not None
            assert (one.error.type, one.error.retryable) == ("Internal", True)
            assert one.error.message.startswith("this machine lets Moonpool start no more processes or threads; raise")
            assert await rows_of(app, one) == BOTH
        assert again.data == 5  # the code had ended in good order, so its session goes on


async def test_a_failure_while_code_runs_ends_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("secret-value-4711")

    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        with monkeypatch.context() as patched:
            patched.setattr("moonpool.sandboxes.linked.LinkedSandbox.send", broken)
            envelope = await session.execute(CodeRequest(code=b"import time; time.sleep(60)"))
        again = await session.execute(CodeRequest(code=b"result = 2"))
        await session.close()
        assert await rows_of(app, envelope) == BOTH
    assert envelope.error is not None
    assert envelope.error.message == "Moonpool itself failed (ZeroDivisionError): this is a bug in Moonpool"
    assert again.data == 2


async def test_a_failure_before_the_sandbox_is_there_is_an_envelope_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def starved(*_: Any, **__: Any) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    async with open_app() as app:
        monkeypatch.setattr(app.runtime.pool, "acquire_nowait", lambda *_: None)
        monkeypatch.setattr(app.runtime.pool, "acquire", starved)
        envelope = await run(app, "result = 1")
        assert envelope.error is not None
        assert envelope.error.type == "Internal"
        assert "raise its limit" in envelope.error.message
        assert await rows_of(app, envelope) == BOTH


@pytest.mark.parametrize("kind", [ExecutionStartRecord, ExecutionEndRecord])
async def test_a_journal_that_fails_costs_no_envelope(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_app() as app:
        failing = Failing(app.runtime.journal, kind, JournalError("the disk is full"))
        monkeypatch.setattr(app.runtime, "journal", failing)
        envelope = await run(app, "result = 1")
        assert envelope.error is not None
        assert (envelope.error.type, envelope.error.message) == ("Internal", "the disk is full")
        assert not envelope.ok


@pytest.mark.parametrize("trouble", ["record", "figures", "result"])
async def test_a_dry_run_that_crashes_leaves_no_plan_to_approve(trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        plans = app.runtime.plans
        assert plans is not None
        if trouble == "record":
            failing = Failing(app.runtime.journal, ExecutionEndRecord, JournalError("the disk is full"))
            monkeypatch.setattr(app.runtime, "journal", failing)
        elif trouble == "figures":
            monkeypatch.setattr(app.runtime, "tokens", Starved())
        forged = "say({'t': 'done', 'run': run, 'status': 'ok', 'has_result': True}, b'1e999')"
        envelope = await run(app, SPEAK + ECHO + (f"\n{forged}" if trouble == "result" else ""), dry_run=True)
        mine = [one for one in await asyncio.to_thread(plans.plans) if one.plan.run_id == envelope.run_id]
    assert envelope.error is not None
    assert [one for one in mine if one.state in {PlanState.WAITING, PlanState.APPROVED} and not one.plan.problem] == []


async def test_a_recording_that_cannot_begin_costs_no_execution(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = threading.Thread.start

    def starved(thread: threading.Thread) -> None:
        if thread.name == "moonpool-recordings":
            raise RuntimeError("can't start new thread")
        start(thread)

    async with open_app() as app:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", starved)
            envelope = await run(app, "result = 1")
        assert (envelope.data, await rows_of(app, envelope)) == (1, BOTH)
        assert caplog.messages == ["an execution is not recorded: can't start new thread"]


async def test_a_plan_whose_id_is_no_text_is_not_there() -> None:
    async with open_app() as app:
        with pytest.raises(PlanError, match="there is no plan"):
            await run(app, "result = 1", plan="\ud800")


async def test_a_call_that_fails_in_us_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        async def run(self, *_: Any) -> Any:
            raise ZeroDivisionError("secret-value-4711")

    async with open_app({"echo": fixture_server("echo.py")}) as app:
        monkeypatch.setattr(app.runtime, "pipeline", Broken())
        code = (
            "from client.mcp_client import call_tool\nresult = (await call_tool(server_id='echo', name='echo')).error"
        )
        envelope = await run(app, code)
    assert isinstance(envelope.data, dict)
    assert envelope.data["type"] == "Internal"
    assert envelope.data["message"] == "Moonpool itself failed (ZeroDivisionError): this is a bug in Moonpool"
