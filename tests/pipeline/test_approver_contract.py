"""What the approval service and the pipeline expect of every approver, whoever answers behind it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import anyio
import pytest

from moonpool.core.calls import ApprovalState
from moonpool.features.approvals.events import EventApprover
from moonpool.features.approvals.files import KeptGrants
from moonpool.features.approvals.model import Answerer, ApprovalAnswer, ApprovalQueueError, ApprovalRequest
from moonpool.features.approvals.queue_approver import QueueApprover
from moonpool.features.approvals.service import Approvals
from moonpool.features.approvals.table import ApprovalStore
from moonpool.pipeline.approval import AutoApprover, DenyApprover, LiveApprovals, ScriptedApprover
from moonpool.pipeline.request_responder import AnswererGoneError
from moonpool.policy import Layer, LayerName, Policy, Rule, Verdict
from moonpool.server.mcp.approver import ElicitingApprover
from moonpool.terminal.approver import TerminalApprover
from moonpool.terminal.device import Terminal
from pipeline.test_pipeline import CANARY, Bench, type_of
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from moonpool.pipeline.approval import Approver

pytestmark = pytest.mark.anyio

PERSON = Answerer(name="app:alice", person=True)


class Stand(Protocol):
    """An approver and whoever answers behind it."""

    approver: Approver

    def shown(self) -> list[str]:
        """Texts of the questions that can be answered now, oldest first."""
        ...

    async def say(self, *, yes: bool) -> None:
        """Answer the oldest."""
        ...

    def go(self) -> None:
        """Whoever answers is gone."""
        ...


def _no_grants() -> NoReturn:
    raise AssertionError("no grant is given here")


class TerminalStand:
    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self.approver = TerminalApprover(
            Terminal(ours.fileno(), nullcontext), name="terminal:alice", grants=KeptGrants(_no_grants)
        )
        self._theirs, self._seen, self._answered = theirs, "", 0

    def shown(self) -> list[str]:
        try:
            while piece := self._theirs.recv(65536):
                self._seen += piece.decode()
        except BlockingIOError:
            pass
        _, *asked = self._seen.split("┌─ approval")
        return [text for text in asked[self._answered :] if "n = no" in text and "(no longer needed)" not in text]

    async def say(self, *, yes: bool) -> None:
        self._answered = self._seen.count("┌─ approval")
        self._theirs.send(b"y\n" if yes else b"n\n")

    def go(self) -> None:
        self._theirs.shutdown(socket.SHUT_WR)


class QueueStand:
    def __init__(self, approver: QueueApprover, store: Breakable) -> None:
        self.approver, self._store = approver, store
        self._answers = Approvals(store, lambda _: None)

    def shown(self) -> list[str]:
        return [one.request.arguments for one in self._store.requests(waiting_only=True)]

    async def say(self, *, yes: bool) -> None:
        request_id = self._store.requests(waiting_only=True)[0].request_id
        (self._answers.approve if yes else self._answers.deny)(request_id, PERSON)

    def go(self) -> None:
        self._store.broken = True


class Breakable(ApprovalStore):
    broken = False

    def take(self, request_id: str, arguments_digest: str) -> Any:
        if self.broken:
            raise ApprovalQueueError("the disk is gone")
        return super().take(request_id, arguments_digest)


class ElicitingStand:
    name = "mcp:client"

    def __init__(self) -> None:
        self.approver = ElicitingApprover()
        self._open: list[tuple[str, asyncio.Future[Any]]] = []

    def can(self, method: str, mode: str = "") -> bool:
        return bool(method or mode)

    async def ask(self, method: str, params: Any) -> Any:
        del method
        question = (str(params["message"]), asyncio.get_running_loop().create_future())
        self._open.append(question)
        try:
            return await question[1]
        finally:
            self._open.remove(question)

    def shown(self) -> list[str]:
        return [text for text, answer in self._open if not answer.done()]

    async def say(self, *, yes: bool) -> None:
        self._next().set_result({"action": "accept", "content": {"allow": yes}})

    def go(self) -> None:
        self._next().set_exception(AnswererGoneError("the client has left"))

    def _next(self) -> asyncio.Future[Any]:
        return next(answer for _, answer in self._open if not answer.done())


class EventStand:
    def __init__(self, stack: ExitStack) -> None:
        self.approver = EventApprover()
        self._stack = stack
        self._questions = stack.enter_context(self.approver.questions())

    def shown(self) -> list[str]:
        return [one.request.arguments for one in self.approver.open]

    async def say(self, *, yes: bool) -> None:
        question = await anext(self._questions)
        await (question.approve(by=PERSON) if yes else question.deny(by=PERSON))

    def go(self) -> None:
        self._stack.close()


@asynccontextmanager
async def terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Stand]:
    del folder, monkeypatch
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        yield TerminalStand(ours, theirs)


@asynccontextmanager
async def queue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Stand]:
    del monkeypatch
    store = Breakable(folder / "private" / "approvals.sqlite3", is_gone=lambda _: False)
    async with QueueApprover(store, owner="me", report=lambda _: None) as approver:
        yield QueueStand(approver, store)
    store.close()


@asynccontextmanager
async def elicitation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Stand]:
    del folder
    stand = ElicitingStand()
    monkeypatch.setattr(stand.approver.bindings, "asker_of", lambda _: stand)
    yield stand


@asynccontextmanager
async def events(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Stand]:
    del folder, monkeypatch
    with ExitStack() as stack:
        yield EventStand(stack)


STANDS = {made.__name__: made for made in (terminal, queue, elicitation, events)}


@pytest.fixture(params=STANDS)
async def stand(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stand]:
    async with STANDS[request.param](tmp_path, monkeypatch) as made:
        with anyio.fail_after(20):
            yield made


def request(number: int = 1, **fields: Any) -> ApprovalRequest:
    return ApprovalRequest(
        request_id="", run_id=f"run_{number}", principal="local:a", server_id="s", tool_name="write",
        arguments=f'{{"n": {number}}}', arguments_digest=f"sha256:{number}", reason="it may change something", **fields,
    )  # fmt: skip


async def shown(stand: Stand, count: int = 1) -> list[str]:
    await until(lambda: len(stand.shown()) == count)
    return stand.shown()


def settle(desk: LiveApprovals, number: int = 1) -> asyncio.Task[ApprovalAnswer]:
    return asyncio.ensure_future(desk.settle(request(number)))  # type: ignore[return-value]


@pytest.mark.req("H-074")
@pytest.mark.parametrize("yes", [True, False])
async def test_an_answer_is_the_answer_to_its_question(stand: Stand, yes: bool) -> None:
    desk = LiveApprovals(stand.approver)
    asked = settle(desk, 7)
    (text,) = await shown(stand)
    assert '{"n": 7}' in text
    await stand.say(yes=yes)
    answer = await asked
    assert answer.state is (ApprovalState.APPROVED if yes else ApprovalState.REJECTED)
    assert answer.arguments_digest == "sha256:7"
    assert answer.approver
    assert (stand.shown(), desk.open_count) == ([], 0)


@pytest.mark.req("H-034")
async def test_a_question_that_nobody_answers_expires_and_is_taken_back(stand: Stand) -> None:
    desk = LiveApprovals(stand.approver, expiry_s=0.3)
    answer = await desk.settle(request())
    assert (answer.state, answer.approver) == (ApprovalState.EXPIRED, "")
    await shown(stand, 0)


async def test_a_question_of_a_call_that_ends_is_taken_back_and_the_next_has_an_answer_of_its_own(stand: Stand) -> None:
    desk = LiveApprovals(stand.approver)
    first = settle(desk, 1)
    await shown(stand)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await shown(stand, 0)
    second = settle(desk, 2)
    (text,) = await shown(stand)
    assert '{"n": 2}' in text
    await stand.say(yes=True)
    assert (await second).state is ApprovalState.APPROVED


async def test_several_questions_are_shown_together_or_in_turn_and_answers_do_not_mix(stand: Stand) -> None:
    desk = LiveApprovals(stand.approver)
    asked = [settle(desk, number) for number in (1, 2, 3)]
    states: dict[str, bool] = {}
    for place in range(3):
        text = (await shown(stand, 3 - place if stand.approver.together else 1))[0]
        states[next(number for number in "123" if f'{{"n": {number}}}' in text)] = place == 1
        await stand.say(yes=place == 1)
        await until(lambda done=place + 1: sum(one.done() for one in asked) == done)
    answers = await asyncio.gather(*asked)
    assert {one.arguments_digest[-1]: one.state is ApprovalState.APPROVED for one in answers} == states
    assert sum(states.values()) == 1


async def test_whoever_answers_goes_and_that_is_a_no(stand: Stand) -> None:
    desk = LiveApprovals(stand.approver)
    asked = settle(desk)
    await shown(stand)
    stand.go()
    assert (await asked).state is ApprovalState.REJECTED


async def test_secrets_are_not_shown(stand: Stand) -> None:
    bench = Bench(policy=Policy(), approver=stand.approver)
    call = asyncio.ensure_future(bench.call("write", token=CANARY))
    (text,) = await shown(stand)
    assert CANARY not in text
    await stand.say(yes=True)
    assert type_of(await call) == ""
    assert [arguments for _, arguments in bench.upstream.calls] == [{"token": CANARY}]
    assert bench.outcomes[-1].approver


@pytest.mark.req("H-074")
@pytest.mark.parametrize(
    ("approver", "state"),
    [
        pytest.param(AutoApprover(), ApprovalState.APPROVED, id="automatic"),
        pytest.param(DenyApprover(), ApprovalState.REJECTED, id="nobody"),
        pytest.param(ScriptedApprover([ApprovalState.APPROVED]), ApprovalState.APPROVED, id="scripted"),
        pytest.param(EventApprover(), ApprovalState.REJECTED, id="events that nobody takes"),
    ],
)
async def test_approvers_without_anybody_behind_them_answer_at_once(approver: Approver, state: ApprovalState) -> None:
    answer = await LiveApprovals(approver).settle(request())
    assert (answer.state, answer.arguments_digest, bool(answer.approver)) == (state, "sha256:1", True)


@pytest.mark.parametrize("approver", [AutoApprover(), DenyApprover(), EventApprover()])
async def test_no_program_says_yes_for_a_person(approver: Approver) -> None:
    rules = (Rule(rule_id="r", verdict=Verdict.HUMAN_ONLY),)
    policy = Policy(layers=(Layer(name=LayerName.ORGANISATION, rules=rules),))
    assert type_of(await Bench(policy=policy, approver=approver).call("write")) == "ApprovalRejected"
    answer = await approver.ask(replace(request(), human_only=True))
    assert answer.state is ApprovalState.REJECTED
