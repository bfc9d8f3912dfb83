"""One execution as events, over real sandboxes and a real server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from apps import fixture_server, open_app
from moonpool.core.calls import CallEnded, CallProgress, CallStarted
from moonpool.core.envelope import Envelope, ExecutionError
from moonpool.core.errors import InputError
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.events import (
    UNREAD_BYTES_MAX,
    UNREAD_CALL_BYTES_MAX,
    CallEventsDropped,
    OutputChunk,
    RunEnded,
    RunEvent,
    run_events,
)
from moonpool.engine.server_request_events import ServerQuestion
from moonpool.features.approvals.events import ApprovalQuestion, EventApprover
from moonpool.features.approvals.model import Answerer, ApprovalAnswerError, ApprovalRequest
from moonpool.features.approvals.service import grant_terms
from moonpool.pipeline.approval import LiveApprovals
from moonpool.sandboxes.base import Stream
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from moonpool.bootstrap import Tenant

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t-of-the-server-0123456789"
ALICE = Answerer(name="app:alice", person=True)
ASKED = {"srv": fixture_server("echo.py", ask=["*"])}
TWO_CALLS = """
import servers.srv as srv
print("first", flush=True)
one = await srv.echo(text="a")
print("second", flush=True)
two = await srv.echo(text="b")
result = [one.ok, two.ok, two.error and two.error["message"]]
"""


def runner(app: Tenant) -> Callable[[CodeRequest], Awaitable[Envelope]]:
    return lambda request: app.runtime.run(request, app.caller_grant)


def code(text: str, **fields: Any) -> CodeRequest:
    return CodeRequest(code=text.encode(), **fields)


def said(request: ApprovalRequest) -> str:
    return str(json.loads(request.arguments)["text"])


def told(event: RunEvent) -> str:
    match event:
        case CallProgress():
            return str(event)
        case CallStarted(tool=tool):
            return f"{tool} begins"
        case CallEnded(tool=tool, approval=approval):
            return f"{tool} {approval}"
        case OutputChunk(stream=stream, data=data):
            return f"{stream.name} {data.decode().strip()}"
        case ApprovalQuestion(request=request):
            return f"{request.tool_name} {said(request)}"
        case ServerQuestion(kind=kind):
            return kind
        case RunEnded(envelope=envelope):
            return str(envelope.data)


@pytest.mark.req("D-053")
async def test_how_calls_get_on_is_an_event_redacted_and_the_newest_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_SRV", SECRET)
    entry = {**fixture_server("curious.py", "legacy"), "env": {"TOKEN": "${TOKEN_OF_SRV}"}}
    text = f"""
import servers.srv as srv
await srv.say({{"method": "notifications/progress", "params": {{"progress": 10 ** 400}}, "token": True}})
told = {{"progress": 3, "message": "with {SECRET}\\nin it"}}
await srv.say({{"method": "notifications/progress", "params": told, "token": True, "times": 900}})
await srv.say({{"method": "notifications/progress", "params": {{"progress": 4}}, "token": True}})
"""
    heard = list[CallProgress]()
    async with open_app({"srv": entry}) as app:
        request = code(text, timeout_s=20, progress=heard.append)
        async with run_events(runner(app), request, EventApprover()) as events:
            seen = [event async for event in events]
    progress = [event for event in seen if isinstance(event, CallProgress)]
    ended = seen[-1]
    assert isinstance(ended, RunEnded)
    assert ended.envelope.ok, ended.envelope.error
    assert (progress[0].tool, progress[0].progress, progress[0].total) == ("srv.say", 3, None)
    assert progress[0].message.startswith("with ")
    assert progress[0].message.endswith(" in it")
    assert SECRET not in repr(progress)
    assert heard[-1] == progress[-1] == CallProgress(tool="srv.say", progress=4)
    assert len(heard) < 100


async def test_progress_that_nobody_reads_takes_the_place_of_older_progress() -> None:
    async def execute(request: CodeRequest) -> Envelope:
        assert request.progress is not None
        for number in range(100_000):
            request.progress(CallProgress(tool=f"s.t{number % 20_000 // 10_000}", progress=number))
        return envelope()

    async with run_events(execute, code("x"), EventApprover()) as events:
        report_lines = [event.progress async for event in events if isinstance(event, CallProgress)]
    assert report_lines == [number * 10_000 + 9_999 for number in range(10)]


@pytest.mark.req("H-034")
async def test_events_come_in_order_and_the_envelope_is_the_last() -> None:
    approver = EventApprover(by=ALICE)
    seen = list[str]()
    async with (
        open_app(ASKED, approver=approver) as app,
        run_events(runner(app), code(TWO_CALLS, timeout_s=20), approver) as events,
    ):
        async for event in events:
            seen.append(told(event))
            match event:
                case ApprovalQuestion(request=request):
                    assert request.run_id == events.run_id
                    await (event.approve() if said(request) == "a" else event.deny("not b"))
                case RunEnded(envelope=envelope):
                    ended = envelope
                case _:
                    pass
    assert seen == [
        "STDOUT first",
        "srv.echo begins",
        "echo a",
        "srv.echo APPROVED",
        "STDOUT second",
        "srv.echo begins",
        "echo b",
        "srv.echo REJECTED",
        "[True, False, 'srv.echo was not approved: not b']",
    ]
    assert (ended.approval_state, ended.run_id) == ("REJECTED", events.run_id)
    assert "parked_ms" in ended.metrics
    assert approver.open == ()


async def test_whoever_leaves_early_ends_the_code_and_takes_its_questions_along() -> None:
    approver = EventApprover()
    async with open_app(ASKED, approver=approver) as app:
        with anyio.fail_after(30):
            async with run_events(runner(app), code(TWO_CALLS), approver) as events:
                async for event in events:
                    if isinstance(event, ApprovalQuestion):
                        break
        assert approver.open == ()
        desk: Any = app.caller_grant.approvals
        assert desk.open_count == 0
        # The application goes on as if nothing had been.
        async with run_events(runner(app), code("result = 1"), approver) as events:
            assert [told(event) async for event in events] == ["1"]


async def test_executions_side_by_side_ask_in_their_own_streams_and_others_in_the_general_one() -> None:
    approver = EventApprover()
    call = "import servers.srv as srv\nresult = (await srv.echo(text='{}')).ok"

    async def own(app: Tenant, text: str) -> list[str]:
        asked = list[str]()
        async with run_events(runner(app), code(call.format(text)), approver) as events:
            async for event in events:
                if isinstance(event, ApprovalQuestion):
                    asked.append(said(event.request))
                    await event.approve()
        return asked

    async with open_app(ASKED, approver=approver) as app:
        with anyio.fail_after(60), approver.questions() as questions:
            streams = asyncio.gather(own(app, "x"), own(app, "y"))
            without = asyncio.ensure_future(runner(app)(code(call.format("z"))))
            question = await anext(questions)
            assert said(question.request) == "z"
            await question.approve()
            assert await streams == [["x"], ["y"]]
            assert (await without).data is True


async def test_a_plan_is_asked_about_in_the_stream_of_the_execution_that_runs_under_it() -> None:
    approver = EventApprover(by=ALICE)
    text = "import servers.srv as srv\nresult = (await srv.echo(text='a')).ok"
    async with open_app(ASKED, approver=approver) as app:
        rehearsed = await runner(app)(code(text, dry_run=True))
        plan: Any = rehearsed.extras["plan"]
        listed = list[tuple[str, ...]]()
        async with run_events(runner(app), code(text, plan=plan["plan_id"]), approver) as events:
            async for event in events:
                if isinstance(event, ApprovalQuestion):
                    listed.append(tuple(event.request.arguments.split("\n")))
                    await event.approve()
                elif isinstance(event, RunEnded):
                    assert (event.envelope.data, event.envelope.approval_state) == (True, "APPROVED")
    assert [len(lines) for lines in listed] == [2]  # the server and the call


async def test_code_that_cannot_be_run_is_an_error_of_the_iteration_or_of_the_block() -> None:
    async def execute(request: CodeRequest) -> Envelope:
        raise InputError(f"{request.name} is no code")

    with pytest.raises(InputError, match="is no code"):
        async with run_events(execute, code("x"), EventApprover()) as events:
            assert [event async for event in events] == []
    with pytest.raises(InputError, match="is no code"):
        async with run_events(execute, code("x"), EventApprover()):
            await asyncio.sleep(0)


def envelope(error: ExecutionError | None = None) -> Envelope:
    return Envelope(
        run_id="run_1", trace_id="t", tool_name="moonpool.python", tool_version="0", input_digest="",
        sandbox_image="", duration_ms=0, error=error,
    )  # fmt: skip


async def test_output_that_nobody_reads_is_bounded_and_what_is_missing_is_said() -> None:
    heard = list[int]()

    async def execute(request: CodeRequest) -> Envelope:
        assert request.observer is not None
        for number in range(3 * UNREAD_BYTES_MAX // 65536):
            request.observer(Stream.STDOUT if number % 3 else Stream.STDERR, b"x" * 65536)
        return envelope()

    request = code("x", observer=lambda _, data: heard.append(len(data)))
    async with run_events(execute, request, EventApprover()) as events:
        chunks = [event async for event in events if isinstance(event, OutputChunk)]
    kept, dropped = (sum(len(one.data) for one in chunks), sum(one.dropped_bytes for one in chunks))
    assert kept <= UNREAD_BYTES_MAX
    assert kept + dropped == sum(heard) == 3 * UNREAD_BYTES_MAX


async def test_the_events_of_many_calls_all_wait_for_their_reader_and_what_is_beyond_that_is_counted() -> None:
    async def execute(request: CodeRequest) -> Envelope:
        assert request.calls is not None
        assert request.observer is not None
        for number in range(int(request.name)):
            request.calls(CallStarted(call_id=number, tool="s.t"))
            request.calls(CallEnded(call_id=number, tool="s.t"))
            request.observer(Stream.STDOUT, b".")
        return envelope()

    heard: dict[int, list[RunEvent]] = {}
    for calls in (10_000, 100_000):
        async with run_events(execute, code("x", name=str(calls)), EventApprover()) as events:
            await asyncio.sleep(0)  # all of it has happened before the first is read
            heard[calls] = [one async for one in events if not isinstance(one, OutputChunk | RunEnded)]
    assert [type(one) for one in heard[10_000]] == [CallStarted, CallEnded] * 10_000
    (dropped,) = (one for one in heard[100_000] if isinstance(one, CallEventsDropped))
    assert len(heard[100_000]) - 1 + dropped.count == 200_000
    assert dropped.count > 100_000
    kept = sum(256 + len(one.tool) for one in heard[100_000] if isinstance(one, CallStarted | CallEnded))
    assert UNREAD_CALL_BYTES_MAX - 1000 < kept <= UNREAD_CALL_BYTES_MAX


async def test_many_small_writes_of_one_stream_are_one_event() -> None:
    async def execute(request: CodeRequest) -> Envelope:
        assert request.observer is not None
        for stream in (Stream.STDOUT, Stream.STDERR):
            for _ in range(1000):
                request.observer(stream, b".")
        return envelope()

    async with run_events(execute, code("x"), EventApprover()) as events:
        chunks = [event async for event in events if isinstance(event, OutputChunk)]
    assert [(one.stream, len(one.data)) for one in chunks] == [(Stream.STDOUT, 1000), (Stream.STDERR, 1000)]


async def test_a_question_that_is_withdrawn_before_it_is_read_is_no_event() -> None:
    approver = EventApprover()
    desk, over = LiveApprovals(approver), asyncio.Event()
    request = ApprovalRequest(
        request_id="", run_id="run_1", principal="local:a", server_id="s", tool_name="write",
        arguments="{}", arguments_digest="sha256:1", reason="r",
    )  # fmt: skip

    async def execute(asked: CodeRequest) -> Envelope:
        assert asked.begun is not None
        asked.begun("run_1")
        call = asyncio.ensure_future(desk.settle(request))
        await until(lambda: approver.open)
        call.cancel()
        await asyncio.wait({call})
        over.set()
        return replace(envelope(), data="over")

    async with run_events(execute, code("x"), approver) as events:
        await over.wait()
        assert [told(event) async for event in events] == ["over"]


@pytest.mark.req("F-016", "P-018")
async def test_code_that_waits_for_an_answer_cannot_find_or_give_it(tmp_path: Path) -> None:
    """The question lives in the host's memory alone: what the code may send does not reach it."""
    asked = tmp_path / "asked"
    attempt = f"""
import asyncio, gc, os, socket
import servers.gate as gate, servers.srv as srv
from client import mcp_client
call = asyncio.ensure_future(srv.echo(text="x"))
await gate.wait(path={str(asked)!r})  # the question is open now
def connect(family, address):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as found:
            found.settimeout(1)
            found.connect(address)
    except OSError as error:
        return type(error).__name__
    return "connected"
tried = [connect(socket.AF_INET, ("127.0.0.1", 8900)), connect(socket.AF_UNIX, "\\0moonpool")]
hosts = [one for one in gc.get_objects() if type(one).__name__ in {{"ApprovalQuestion", "EventApprover"}}]
for name in ("approve", "moonpool.approve", "approval"):
    answer = await mcp_client.call_tool(server_id="moonpool", name=name, arguments={{"approved": True}})
    tried.append(answer.ok)
print("looked around", flush=True)
waited = not call.done()
answer = await call
result = [tried, len(hosts), waited, answer.ok]
"""
    approver = EventApprover()
    async with open_app({**ASKED, "gate": fixture_server("gate.py")}, approver=approver) as app:
        question, looked = None, False
        async with run_events(runner(app), code(attempt), approver) as events:
            async for event in events:
                if isinstance(event, ApprovalQuestion):
                    question = event
                    await asyncio.to_thread(asked.touch)
                elif isinstance(event, OutputChunk):
                    looked = True
                elif isinstance(event, RunEnded):
                    found: Any = event.envelope
                if question is not None and question.is_open and looked:
                    await question.deny()
    tried, hosts, waited, ok = found.data
    assert (len(tried), "connected" in tried, True in tried, hosts, waited, ok) == (5, False, False, 0, True, False)


async def test_the_streams_of_a_session_share_its_variables() -> None:
    approver = EventApprover()
    async with open_app(approver=approver) as app:
        session = app.runtime.session(app.caller_grant)
        for text, expected in (("x = 41", "None"), ("result = x + 1", "42")):
            async with run_events(session.execute, code(text), approver) as events:
                assert [told(event) async for event in events] == [expected]
        await session.close()


FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ASKS: dict[str, Any] = {
    "form": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}},
    "sampling": {
        "method": "sampling/createMessage",
        "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 5},
    },
}
SAID = {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m-1", "stopReason": "endTurn"}
CURIOUS = {
    era: fixture_server("curious.py", era, allow=["*"], elicitation="relay", sampling="relay")
    for era in ("legacy", "modern")
}


def asking(era: str, *kinds: str) -> str:
    calls = [f"r.append((await s.ask(**json.loads({json.dumps(ASKS[kind])!r}))).data)" for kind in kinds]
    return "\n".join([f"import json, servers.{era} as s", "r = []", *calls, "result = r"])


@pytest.mark.req("D-047")
@pytest.mark.parametrize("era", CURIOUS)
async def test_what_servers_ask_is_an_event_where_the_application_takes_it_and_is_on_record(era: str) -> None:
    approver = EventApprover()
    seen = list[str]()
    async with open_app(CURIOUS, approver=approver) as app:
        request = code(asking(era, "form", "sampling"))
        async with run_events(runner(app), request, approver, asks=("form", "sampling")) as events:
            async for event in events:
                if isinstance(event, ServerQuestion):
                    seen.append(event.kind)
                    if event.kind == "form":
                        assert "Who?" in str(event.params["message"])
                        with pytest.raises(InputError, match="is accepted, declined or cancelled"):
                            event.sampled(SAID)
                        event.accept({"name": "Ada"}, by=ALICE)
                        with pytest.raises(ApprovalAnswerError, match="answered already"):
                            event.decline()
                    else:
                        event.sampled(SAID)
                elif isinstance(event, RunEnded):
                    ended = event.envelope
        rows = await anyio.to_thread.run_sync(lambda: [*read_rows(journal_path(app.data), run_id=events.run_id)])
    assert seen == ["form", "sampling"]
    assert all(text in json.dumps(ended.data) for text in ("Ada", "Hello"))
    asked: list[Any] = [one.to_json() for one in rows if one.kind == "question"]
    assert [(one["answer"], one["answerer"]) for one in asked] == [
        ("accept", "app:alice"),
        ("answered", "application:events"),
    ]


async def test_what_the_application_does_not_take_is_declined_and_a_question_left_open_ends_with_the_stream() -> None:
    approver = EventApprover()
    async with open_app(CURIOUS, approver=approver) as app:
        async with run_events(runner(app), code(asking("legacy", "sampling", "form")), approver) as events:
            everything = [event async for event in events]
        assert [type(event) for event in everything] == [CallStarted, CallEnded, CallStarted, CallEnded, RunEnded]
        with anyio.fail_after(30):
            async with run_events(runner(app), code(asking("legacy", "form")), approver, asks=["form"]) as events:
                question = await anext(event async for event in events if isinstance(event, ServerQuestion))
        with pytest.raises(ApprovalAnswerError):
            question.decline()


@pytest.mark.req("D-039")
async def test_sampling_that_is_declined_is_an_error_for_the_server() -> None:
    approver = EventApprover()
    async with open_app(CURIOUS, approver=approver) as app:
        request = code(asking("legacy", "sampling"))
        async with run_events(runner(app), request, approver, asks=["sampling"]) as events:
            async for event in events:
                if isinstance(event, ServerQuestion):
                    event.decline(by=ALICE)
                elif isinstance(event, RunEnded):
                    assert "User rejected sampling request" in json.dumps(event.envelope.data)
        rows = await anyio.to_thread.run_sync(lambda: [*read_rows(journal_path(app.data), run_id=events.run_id)])
    [asked] = [one.to_json() for one in rows if one.kind == "question"]
    assert (asked["answer"], asked["answerer"], asked["why"]) == ("refused", "app:alice", "")


async def test_an_answer_that_stands_is_on_record_and_spares_the_next_question() -> None:
    approver, asked = EventApprover(by=ALICE), 0
    text = "import servers.srv as srv\nresult = (await srv.echo(text='standing')).ok"
    async with open_app(ASKED, approver=approver) as app:
        for _ in range(2):
            async with run_events(runner(app), code(text), approver) as events:
                async for event in events:
                    if isinstance(event, ApprovalQuestion):
                        asked += 1
                        given = await event.approve(terms=grant_terms("1h", ["/text=standing"]))
                        assert given is not None
                    elif isinstance(event, RunEnded):
                        assert event.envelope.data is True
        (grant,) = await anyio.to_thread.run_sync(app.approvals.grants)
        rows = await anyio.to_thread.run_sync(lambda: [*read_rows(journal_path(app.data), run_id=grant.answer_id)])
        await anyio.to_thread.run_sync(app.approvals.remove_grant, grant.answer_id, ALICE)
    assert (asked, [row.kind for row in rows]) == (1, ["standing_answer"])
