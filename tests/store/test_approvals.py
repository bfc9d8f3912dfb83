"""The queue of approvals, in a file and in PostgreSQL: one answer to each request, taken once, whoever shares it."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never, TypeAlias, cast

import pytest

from commands.process import Command
from moonpool.core.audit import JournalError
from moonpool.core.calls import ApprovalState
from moonpool.core.manifest import ToolDefinition
from moonpool.features.approvals import database_table, rows
from moonpool.features.approvals.database_table import ApprovalRows
from moonpool.features.approvals.model import (
    Answerer,
    ApprovalAnswerError,
    ApprovalGrant,
    ApprovalQueueError,
    ApprovalRequest,
    QueuedRequest,
    QueueState,
)
from moonpool.features.approvals.service import Approvals, grant_terms
from moonpool.features.approvals.table import ApprovalStore
from moonpool.policy import CallFacts, Condition, Glob
from moonpool.store.database.base import DatabaseError
from moonpool.store.outbox import Delivery
from moonpool.store.process_marks import is_gone, own_mark
from tenant_databases import OpenedDatabase, organisation, tenant_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from moonpool.core.audit_records import ApprovalGrantRecord
    from moonpool.features.approvals.service import GrantTerms
    from moonpool.store.database.base import Database

__all__ = ["organisation", "tenant_database"]
AnyStore: TypeAlias = ApprovalStore | ApprovalRows
RECORDS: list[ApprovalGrantRecord] = []
PERSON = Answerer(name="terminal:alice", person=True)
PROGRAM = Answerer(name="command:alice", person=False)
TOOL = ToolDefinition(server_id="git", name="create_issue", raw={"name": "create_issue"})


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def go_on(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "private" / "approvals.sqlite3"


@pytest.fixture(params=["file", "postgresql"])
def opening(request: pytest.FixtureRequest) -> Callable[[Clock], AnyStore]:
    """Opens the queue once more: as another process would."""
    if request.param == "file":
        path: Path = request.getfixturevalue("path")
        return lambda clock: ApprovalStore(path, is_gone=is_gone, clock=clock)
    opened: OpenedDatabase = request.getfixturevalue("tenant_database")
    name: str = request.getfixturevalue("organisation")
    return lambda clock: ApprovalRows(opened.database, opened.loop, name, clock=clock)


@pytest.fixture
def store(opening: Callable[[Clock], AnyStore], clock: Clock) -> Iterator[AnyStore]:
    made = opening(clock)
    yield made
    made.close()


@pytest.fixture
def file_store(path: Path, clock: Clock) -> Iterator[ApprovalStore]:
    made = ApprovalStore(path, is_gone=is_gone, clock=clock)
    yield made
    made.close()


def asked(
    request_id: str = "a" * 32, *, at: float = Clock.now, expires_at: float | None = None, **changes: Any
) -> QueuedRequest:
    request = ApprovalRequest(
        request_id=request_id, run_id="run", session_id="session", principal="local:alice", server_id="git",
        tool_name="create_issue", tool_digest=TOOL.digest, arguments='{"repo":"acme/x"}', arguments_digest="sha256:a",
        reason="no rule", rule_id="default", server_digest="sha256:staging",
    )  # fmt: skip
    return QueuedRequest(
        request=replace(request, **changes), asked_at=at, expires_at=at + 600 if expires_at is None else expires_at,
        owner=own_mark(),
    )  # fmt: skip


def facts(**changes: object) -> CallFacts:
    return replace(CallFacts(tool=TOOL, arguments={"repo": "acme/x"}, principal="local:alice"), **changes)


def covering(
    store: AnyStore,
    facts: CallFacts,
    *,
    human_only: bool = False,
    server_digest: str = "sha256:staging",
    arguments_digest: str = "sha256:a",
) -> list[ApprovalGrant]:
    given = store.grants_for(facts.principal, facts.tool.server_id, facts.tool.name)
    return [
        one
        for one in given
        if covers(one, facts, server_digest, human_only=human_only, arguments_digest=arguments_digest)
    ]


def covers(
    one: ApprovalGrant,
    facts: CallFacts,
    server_digest: str,
    *,
    human_only: bool = False,
    now: float | None = None,
    arguments_digest: str = "sha256:a",
) -> bool:
    return one.covers(
        facts,
        server_digest=server_digest,
        arguments_digest=arguments_digest,
        human_only=human_only,
        now=now or Clock.now,
    )


@pytest.mark.req("I-050")
@pytest.mark.parametrize("yes", [True, False])
def test_an_answer_reaches_who_asked_once(store: AnyStore, yes: bool) -> None:
    store.put(asked())
    assert store.take("a" * 32, "sha256:a") is None
    store.answer("a" * 32, "sha256:a", approved=yes, approver="terminal:alice", note="why")
    first, second = store.take("a" * 32, "sha256:a"), store.take("a" * 32, "sha256:a")
    assert first is not None
    assert second is not None
    assert (first.state, first.approver, first.note) == (
        ApprovalState.APPROVED if yes else ApprovalState.REJECTED, "terminal:alice", "why",
    )  # fmt: skip
    assert second.state is ApprovalState.REJECTED


@pytest.mark.parametrize(
    ("request_id", "digest"), [("b" * 32, "sha256:a"), ("a" * 32, "sha256:b"), ("a" * 32, "")], ids=str
)
def test_an_answer_to_another_question_or_other_arguments_is_none(
    store: AnyStore, request_id: str, digest: str
) -> None:
    store.put(asked())
    with pytest.raises(ApprovalAnswerError):
        store.answer(request_id, digest, approved=True, approver="x")
    assert store.take("a" * 32, "sha256:a") is None


def test_an_approval_is_not_taken_for_other_arguments(store: AnyStore) -> None:
    store.put(asked())
    store.answer("a" * 32, "sha256:a", approved=True, approver="x")
    answer = store.take("a" * 32, "sha256:other")
    assert answer is not None
    assert answer.state is ApprovalState.REJECTED


def test_of_many_who_answer_at_once_one_is_heard(
    store: AnyStore, opening: Callable[[Clock], AnyStore], clock: Clock
) -> None:
    store.put(asked())

    def answer(number: int) -> bool:
        own = opening(clock)
        try:
            own.answer("a" * 32, "sha256:a", approved=bool(number % 2), approver=f"p{number}")
        except ApprovalAnswerError:
            return False
        finally:
            own.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(answer, range(16))) == 1


def test_too_late_is_too_late(store: AnyStore, clock: Clock) -> None:
    store.put(asked())
    clock.now += 600
    with pytest.raises(ApprovalAnswerError, match="it is expired"):
        store.answer("a" * 32, "sha256:a", approved=True, approver="x")
    answer = store.take("a" * 32, "sha256:a")
    assert answer is not None
    assert answer.state is ApprovalState.EXPIRED


@pytest.mark.parametrize(("late_s", "state"), [(10, "withdrawn"), (599.5, "expired")])
def test_a_request_that_is_withdrawn_cannot_be_answered(
    store: AnyStore, clock: Clock, late_s: float, state: str
) -> None:
    store.put(asked())
    clock.now += late_s
    store.withdraw("a" * 32)
    with pytest.raises(ApprovalAnswerError, match=f"it is {state}"):
        store.answer("a" * 32, "sha256:a", approved=True, approver="x")


_ASKER = """
import sys, time, pathlib
from moonpool.features.approvals.model import ApprovalRequest, QueuedRequest
from moonpool.store.process_marks import is_gone, own_mark
from moonpool.features.approvals.table import ApprovalStore
for letter in "cd":
    ApprovalStore(pathlib.Path(sys.argv[1]), is_gone=is_gone).put(QueuedRequest(
        request=ApprovalRequest(request_id=letter * 32, run_id="run", principal="p", server_id="git", tool_name="t",
            arguments="{}", arguments_digest="d", reason=""),
        asked_at=time.time(), expires_at=time.time() + 600, owner=own_mark()))
print("asked", flush=True)
time.sleep(600)
"""


def test_requests_of_a_process_that_was_killed_are_abandoned(path: Path) -> None:
    store = ApprovalStore(path, is_gone=is_gone)
    child = Command(["-c", _ASKER, path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"asked\n"
    store.answer("c" * 32, "d", approved=True, approver="x")  # not fetched before it dies
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with pytest.raises(ApprovalAnswerError, match="it is abandoned"):
        store.answer("d" * 32, "d", approved=True, approver="x")
    assert {one.state for one in store.requests(waiting_only=False)} == {QueueState.ABANDONED}
    assert store.requests(waiting_only=True) == []
    store.close()


def test_the_queue_is_bounded_and_says_so(store: AnyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "WAITING_MAX", 12)
    for number in range(12):
        store.put(asked(f"{number:032d}"))
    with pytest.raises(ApprovalQueueError, match="answer some of them first"):
        store.put(asked())


def test_one_principal_leaves_room_for_the_requests_of_others(store: AnyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "WAITING_MAX", 3)  # of one, so 4 of all
    for number in range(3):
        store.put(asked(f"{number:032d}"))
    with pytest.raises(ApprovalQueueError, match="too many requests of yours wait"):
        store.put(asked())
    store.put(asked("b" * 32, principal="local:bob", whole="x" * 50))
    with pytest.raises(ApprovalQueueError, match="too many requests of all callers wait"):
        store.put(asked("c" * 32, principal="local:bob"))
    monkeypatch.setattr(rows, "WAITING_MAX", 100)
    monkeypatch.setattr(rows, "WAITING_CHARS_MAX", 40)
    with pytest.raises(ApprovalQueueError, match="too many requests of yours wait"):
        store.put(asked("c" * 32, principal="local:bob"))


def test_one_principal_leaves_room_for_the_grants_of_others(
    store: AnyStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "GRANTS_MAX", 2)  # of one, so 3 of all
    approvals, whose = Approvals(store, RECORDS.append, clock=clock), []
    for number, principal in enumerate(["local:alice"] * 3 + ["local:bob"] * 2):
        store.put(asked(f"{number:032d}", principal=principal))
        try:
            approvals.approve(f"{number:032d}", PERSON, terms=grant_terms("7d"))
        except ApprovalQueueError as error:
            whose.append(f"{principal}: {error}")
        else:
            whose.append(principal)
    told = "there are {} approval grants; remove some, or answer once"
    alice, bob = f"local:alice: {told.format(2)}", f"local:bob: {told.format(3)}"
    assert whose == ["local:alice", "local:alice", alice, "local:bob", bob]


def test_requests_that_are_over_are_bounded_by_number(store: AnyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "OVER_MAX", 2)
    for number in range(5):
        store.put(asked(f"{number:032d}", at=Clock.now + number))
        store.withdraw(f"{number:032d}")
    store.put(asked())
    assert {one.request_id for one in store.requests(waiting_only=False)} == {f"{3:032d}", f"{4:032d}", "a" * 32}


def test_what_is_over_is_forgotten_after_a_week(store: AnyStore, clock: Clock) -> None:
    store.put(asked())
    clock.now += 8 * 86_400
    store.put(asked("b" * 32, at=clock.now, expires_at=clock.now + 1))
    assert [one.request_id for one in store.requests(waiting_only=False)] == ["b" * 32]


def test_texts_are_cut_and_half_characters_survive(store: AnyStore) -> None:
    store.put(asked(arguments="x" * 100_000, reason="\ud800", tool_name="\x1b[2J"))
    kept = store.requests(waiting_only=True)[0].request
    assert (len(kept.arguments), kept.reason, kept.tool_name) == (8000, "?", "\x1b[2J")


def test_nobody_else_can_read_the_file(file_store: ApprovalStore, path: Path) -> None:
    file_store.put(asked())
    assert {one.stat().st_mode & 0o077 for one in (path, path.parent)} == {0}


def test_looking_for_approval_grants_makes_no_file(file_store: ApprovalStore, path: Path) -> None:
    assert file_store.grants_for("p", "s", "t") == []
    assert not path.exists()


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be read as a header" * 20])
def test_a_damaged_file_is_one_sentence(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(content)
    store = ApprovalStore(path, is_gone=is_gone)
    with pytest.raises(ApprovalQueueError, match="is damaged; remove it"):
        store.requests(waiting_only=True)


def test_a_file_of_a_newer_release_is_left_alone(file_store: ApprovalStore, path: Path) -> None:
    file_store.put(asked())
    file_store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(ApprovalQueueError, match="newer Moonpool"):
        file_store.requests(waiting_only=True)


@pytest.mark.parametrize(
    ("changes", "covered"),
    [
        pytest.param({}, True, id="the same tool and arguments that fit"),
        pytest.param({"arguments": {"repo": "acme/other", "title": "x"}}, True, id="other arguments that fit"),
        pytest.param({"arguments": {"repo": "evil/x"}}, False, id="arguments that do not"),
        pytest.param({"arguments": {"repo": "acme/../evil/x"}}, False, id="a way out of the glob"),
        pytest.param({"arguments": {}}, False, id="an argument that is missing"),
        pytest.param({"arguments": {"repo": ["acme/x"]}}, False, id="an argument of another kind"),
        pytest.param({"principal": "local:bob"}, False, id="somebody else"),
        pytest.param({"tool": replace(TOOL, server_id="other")}, False, id="another server"),
        pytest.param({"tool": replace(TOOL, name="close_issue")}, False, id="another tool"),
        pytest.param({"tool": replace(TOOL, raw={"name": "create_issue", "description": "new"})}, False,
                     id="the tool described anew"),
    ],
)  # fmt: skip
def test_an_approval_grant_covers_what_it_says(
    store: AnyStore, clock: Clock, changes: dict[str, object], covered: bool
) -> None:
    store.put(asked())
    terms = grant_terms("7d", ["/repo=acme/*"])
    Approvals(store, RECORDS.append, clock=clock).approve("a" * 32, PERSON, terms=terms)
    assert bool(covering(store, facts(**changes))) is covered


@pytest.mark.parametrize(
    ("terms", "others"),
    [
        pytest.param(grant_terms("7d"), False, id="the same arguments, unless it says others"),
        pytest.param(grant_terms("7d", any_arguments=True), True, id="any arguments"),
        pytest.param(grant_terms("7d", ["/repo=*"]), True, id="those that meet a condition"),
    ],
)
def test_an_approval_grant_covers_other_arguments_only_where_it_says_so(
    store: AnyStore, clock: Clock, terms: GrantTerms, others: bool
) -> None:
    store.put(asked())
    Approvals(store, RECORDS.append, clock=clock).approve("a" * 32, PERSON, terms=terms)
    assert covering(store, facts())
    assert bool(covering(store, facts(arguments={"repo": "b"}), arguments_digest="sha256:b")) is others
    assert (RECORDS[-1].conditions_digest == "sha256:a") is not others


def test_answers_of_before_cover_what_they_covered(path: Path, clock: Clock) -> None:
    store = ApprovalStore(path, is_gone=is_gone, clock=clock)
    store.put(asked())
    Approvals(store, RECORDS.append, clock=clock).approve("a" * 32, PERSON, terms=grant_terms("7d"))
    store.close()
    connection = sqlite3.connect(path)
    connection.executescript("ALTER TABLE standing DROP COLUMN arguments_digest; PRAGMA user_version=2;")
    connection.close()
    store = ApprovalStore(path, is_gone=is_gone, clock=clock)
    assert covering(store, facts(), arguments_digest="sha256:b")
    store.close()


def test_an_approval_grant_belongs_to_a_server_not_to_its_name(store: AnyStore, clock: Clock) -> None:
    store.put(asked())
    Approvals(store, RECORDS.append, clock=clock).approve("a" * 32, PERSON, terms=grant_terms("7d", []))
    assert covering(store, facts())
    assert not covering(store, facts(), server_digest="sha256:production")
    assert not covering(store, facts(), server_digest="")


_VERSION_3 = """
CREATE TABLE request (
    request_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, session_id TEXT NOT NULL, principal TEXT NOT NULL,
    server_id TEXT NOT NULL, tool_name TEXT NOT NULL, tool_digest TEXT NOT NULL, arguments TEXT NOT NULL,
    arguments_digest TEXT NOT NULL, reason TEXT NOT NULL, rule_id TEXT NOT NULL, human_only INTEGER NOT NULL,
    cut INTEGER NOT NULL, whole TEXT NOT NULL, server_digest TEXT NOT NULL, server_address TEXT NOT NULL,
    config_file TEXT NOT NULL, code_line INTEGER NOT NULL,
    asked_at REAL NOT NULL, expires_at REAL NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL,
    approver TEXT NOT NULL, note TEXT NOT NULL, answered_at REAL, taken_at REAL
);
INSERT INTO request VALUES ('a', 'run_1', 's', 'local:alice', 'moonpool', 'plan', '', '1. git.push', 'sha256:a', 'why',
    '', 1, 1, '1. git.push {}', 'sha256:s', 'mcp-git', '/etc/x.json', 3, 1000000.0, 1000600.0, '', 'waiting', '', '',
    NULL, NULL);
CREATE TABLE standing (
    answer_id TEXT PRIMARY KEY, principal TEXT NOT NULL, server_id TEXT NOT NULL, tool_name TEXT NOT NULL,
    tool_digest TEXT NOT NULL, server_digest TEXT NOT NULL, server_address TEXT NOT NULL, conditions TEXT NOT NULL,
    arguments_digest TEXT NOT NULL, human_only INTEGER NOT NULL, given_by TEXT NOT NULL,
    given_at REAL NOT NULL, expires_at REAL NOT NULL, request_id TEXT NOT NULL
);
INSERT INTO standing VALUES ('g', 'local:alice', 'git', 'push', 'sha256:t', 'sha256:s', 'mcp-git',
    '[{"at": "/a", "glob": ["x"]}]', '', 0, 'terminal:alice', 1000000.0, 1000600.0, 'r');
PRAGMA user_version=3;
"""


def test_a_file_as_0_1_0_wrote_it_is_read(path: Path, clock: Clock) -> None:
    path.parent.mkdir(mode=0o700)
    connection = sqlite3.connect(path)
    connection.executescript(_VERSION_3)
    connection.close()
    store = ApprovalStore(path, is_gone=is_gone, clock=clock)
    (queued,), (grant,) = store.requests(waiting_only=True), store.grants()
    assert queued == QueuedRequest(
        request=ApprovalRequest(
            request_id="a", run_id="run_1", session_id="s", principal="local:alice", server_id="moonpool",
            tool_name="plan", arguments="1. git.push", arguments_digest="sha256:a", reason="why", human_only=True,
            cut=True, whole="1. git.push {}", server_digest="sha256:s", server_address="mcp-git",
            config_file="/etc/x.json", code_line=3,
        ),
        asked_at=clock.now, expires_at=clock.now + 600,
    )  # fmt: skip
    assert queued.request.is_plan
    assert grant == ApprovalGrant(
        answer_id="g", principal="local:alice", server_id="git", tool_name="push", tool_digest="sha256:t",
        server_digest="sha256:s", server_address="mcp-git", where=(Condition("/a", Glob(("x",))),), arguments_digest="",
        human_only=False, given_by="terminal:alice", given_at=clock.now, expires_at=clock.now + 600, request_id="r",
    )  # fmt: skip
    store.close()


def test_answers_that_name_no_server_do_not_count_any_more(path: Path, clock: Clock) -> None:
    path.parent.mkdir(mode=0o700)
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE standing (a); CREATE TABLE request (a); PRAGMA user_version=1;")
    connection.execute("INSERT INTO standing VALUES (1)")
    connection.commit()
    connection.close()
    store = ApprovalStore(path, is_gone=is_gone, clock=clock)
    assert (store.grants(), store.requests(waiting_only=False)) == ([], [])
    store.put(asked())
    store.close()


def test_nothing_is_approved_for_a_while_by_who_has_not_seen_it_all(store: AnyStore, clock: Clock) -> None:
    approvals, terms = Approvals(store, RECORDS.append, clock=clock), grant_terms("1h", [])
    store.put(asked(cut=True, whole='{"repo":"acme/x"}'))
    store.put(asked("b" * 32, cut=True))
    for request_id, saw_whole in (("a" * 32, False), ("b" * 32, False), ("b" * 32, True)):
        with pytest.raises(ApprovalAnswerError, match="is not approved for a while"):
            approvals.approve(request_id, PERSON, terms=terms, saw_whole=saw_whole)
    assert len(store.requests(waiting_only=True)) == 2
    approvals.approve("b" * 32, PERSON)
    approvals.approve("a" * 32, PERSON, terms=terms, saw_whole=True)
    assert len(approvals.grants()) == 1
    assert [one.request.whole for one in store.requests(waiting_only=False)] == ["", ""]  # kept no longer than needed


@pytest.mark.parametrize(
    ("given", "wanted", "covered"),
    [(False, False, True), (False, True, False), (True, True, True), (True, False, True)],
)
def test_a_call_reserved_for_a_person_needs_an_answer_given_to_one(
    store: AnyStore, clock: Clock, given: bool, wanted: bool, covered: bool
) -> None:
    store.put(asked(human_only=given))
    Approvals(store, RECORDS.append, clock=clock).approve("a" * 32, PERSON, terms=grant_terms("1h", []))
    assert bool(covering(store, facts(), human_only=wanted)) is covered


def test_an_approval_grant_ends_by_itself_and_by_hand(store: AnyStore, clock: Clock) -> None:
    approvals = Approvals(store, RECORDS.append, clock=clock)
    for letter, duration in (("a", "30m"), ("b", "7d")):
        store.put(asked(letter * 32))
        approvals.approve(letter * 32, PERSON, terms=grant_terms(duration, []))
    assert len(approvals.grants()) == 2
    clock.now += 1800
    (left,) = approvals.grants()
    assert not covers(left, facts(), "sha256:staging", now=clock.now + 7 * 86_400)
    approvals.remove_grant(left.answer_id, PERSON)
    assert approvals.grants() == []
    with pytest.raises(ApprovalAnswerError, match="no approval grant"):
        approvals.remove_grant(left.answer_id, PERSON)


def test_an_answer_that_came_too_late_leaves_no_grant(store: AnyStore, clock: Clock) -> None:
    store.put(asked())
    clock.now += 600
    with pytest.raises(ApprovalAnswerError):
        Approvals(store, RECORDS.append, clock=clock).approve("a" * 32, PERSON, terms=grant_terms("1h", []))
    assert store.grants() == []


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize(
    ("over", "state"),
    [
        pytest.param(lambda store, _: store.withdraw("a" * 32), QueueState.WITHDRAWN, id="the run ended"),
        pytest.param(
            lambda store, clock: (clock.go_on(600), store.withdraw("a" * 32)), QueueState.EXPIRED, id="expired"
        ),
        pytest.param(None, QueueState.ABANDONED, id="the process was killed"),
    ],
)
def test_who_answers_before_the_end_and_is_not_heard_is_told(
    store: AnyStore,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    over: Callable[[Any, Clock], object] | None,
    state: QueueState,
    yes: bool,
) -> None:
    approvals = Approvals(store, RECORDS.append, clock=clock)
    store.put(asked())
    if yes:
        answered, grant = approvals.approve("a" * 32, PERSON, terms=grant_terms("1h", []))
    else:
        answered, grant = approvals.deny("a" * 32, PERSON), None
    assert approvals.was_taken(answered, PERSON, grant, within_s=0) is False
    if over is not None:
        over(store, clock)
    elif isinstance(store, ApprovalRows):
        monkeypatch.setattr(database_table, "SEEN_WITHIN_S", -1.0)
    else:
        monkeypatch.setattr(store, "_is_gone", lambda _: True)
    with pytest.raises(ApprovalAnswerError, match=f"came too late: it is {state}"):
        approvals.was_taken(answered, PERSON, grant)
    assert store.grants() == []
    taken = store.take("a" * 32, answered.request.arguments_digest)
    assert taken is not None
    expired = state is QueueState.EXPIRED
    assert taken.state is (ApprovalState.EXPIRED if expired else ApprovalState.REJECTED)


def test_who_answers_learns_that_it_was_heard(store: AnyStore, clock: Clock) -> None:
    approvals = Approvals(store, RECORDS.append, clock=clock)
    store.put(asked())
    answered, _ = approvals.approve("a" * 32, PERSON)
    store.take("a" * 32, answered.request.arguments_digest)
    store.withdraw("a" * 32)
    assert approvals.was_taken(answered, PERSON) is True


def test_a_program_cannot_answer_for_a_person(store: AnyStore, clock: Clock) -> None:
    store.put(asked(human_only=True))
    approvals = Approvals(store, RECORDS.append, clock=clock)
    with pytest.raises(ApprovalAnswerError, match="wants a person to answer"):
        approvals.approve("a" * 32, PROGRAM)
    assert approvals.deny("a" * 32, PROGRAM).state is QueueState.DENIED


def test_the_beginning_of_an_id_is_enough_if_it_names_one(store: AnyStore, clock: Clock) -> None:
    for end in ("1", "2"):
        store.put(asked("abcdefgh" + end * 24))
    approvals = Approvals(store, RECORDS.append, clock=clock)
    assert approvals.find("abcdefgh1").request_id.endswith("1")
    for unclear, why in (("abcdefgh", "begins 2 requests"), ("abc", "too short"), ("zzzzzzzzz", "there is no request")):
        with pytest.raises(ApprovalAnswerError, match=why):
            approvals.find(unclear)


def test_a_store_that_is_locked_says_so(file_store: ApprovalStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moonpool.features.approvals.sqlite_file._BUSY_S", 0.01)
    file_store.put(asked())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    impatient = ApprovalStore(path, is_gone=is_gone)
    try:
        with pytest.raises(ApprovalQueueError, match="locked by another process"):
            impatient.requests(waiting_only=True)
    finally:
        other.close()
        impatient.close()


@pytest.mark.parametrize(
    ("duration", "where"),
    [("7", []), ("0d", []), ("91d", []), ("-1h", []), ("1h", ["repo=x"]), ("1h", ["/repo"]), ("1h", ["/~2=x"])],
)
def test_terms_that_say_nothing_clear_are_refused(duration: str, where: list[str]) -> None:
    from moonpool.core.errors import InputError

    with pytest.raises(InputError):
        grant_terms(duration, where)


def test_a_condition_is_kept_as_it_was_given(store: AnyStore, clock: Clock) -> None:
    store.put(asked(arguments='{"a/b":"x=1","c":""}'))
    Approvals(store, RECORDS.append, clock=clock).approve(
        "a" * 32, PERSON, terms=grant_terms("1h", ["/a~1b=x=*", "/c="])
    )
    (kept,) = store.grants()
    assert kept.where == (Condition("/a~1b", Glob(("x=*",))), Condition("/c", Glob(("",))))


def test_an_answer_that_cannot_be_put_on_record_is_none(store: AnyStore, clock: Clock) -> None:
    def full(_: ApprovalGrantRecord) -> None:
        raise JournalError("disk full")

    store.put(asked())
    with pytest.raises(JournalError):
        Approvals(store, full, clock=clock).approve("a" * 32, PERSON, terms=grant_terms("1h", []))
    assert (store.grants(), len(store.requests(waiting_only=True))) == ([], 1)
    _, given = Approvals(store, RECORDS.append, clock=clock).approve("a" * 32, PERSON, terms=grant_terms("1h", []))
    assert given is not None
    assert (RECORDS[-1].run_id, RECORDS[-1].what, RECORDS[-1].approver) == (given.answer_id, "given", "terminal:alice")
    with pytest.raises(JournalError):
        Approvals(store, full, clock=clock).remove_grant(given.answer_id, PERSON)
    assert len(store.grants()) == 1


def test_an_organisation_sees_and_answers_its_own_only(tenant_database: OpenedDatabase, clock: Clock) -> None:
    one, other = (ApprovalRows(tenant_database.database, tenant_database.loop, name, clock=clock) for name in "ab")
    one.put(asked())
    Approvals(one, RECORDS.append, clock=clock).approve("a" * 32, PERSON, terms=grant_terms("1h"))
    assert (other.requests(waiting_only=False), other.grants(), covering(other, facts())) == ([], [], [])
    with pytest.raises(ApprovalAnswerError, match="there is no request"):
        other.answer("a" * 32, "sha256:a", approved=False, approver="x")
    other.withdraw("a" * 32)
    taken = other.take("a" * 32, "sha256:a")
    assert taken is not None
    assert taken.state is ApprovalState.REJECTED
    assert not other.remove_grant(one.grants()[0].answer_id, Delivery(RECORDS[-1], RECORDS.append))
    other.put(asked())  # an id is an organisation's own
    assert one.take("a" * 32, "sha256:a") == replace(taken, state=ApprovalState.APPROVED, approver=PERSON.name, note="")


def test_who_asked_and_looks_is_not_gone(
    tenant_database: OpenedDatabase, organisation: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ApprovalRows(tenant_database.database, tenant_database.loop, organisation, clock=clock)
    store.put(asked())
    monkeypatch.setattr(database_table, "SEEN_EVERY_S", 0.0)
    before = store.requests(waiting_only=True)
    assert store.take("a" * 32, "sha256:a") is None
    monkeypatch.setattr(database_table, "SEEN_WITHIN_S", 0.0)
    assert (len(before), store.requests(waiting_only=False)[0].state) == (1, QueueState.ABANDONED)


def test_a_database_that_is_away_has_not_said_yes(tenant_database: OpenedDatabase, clock: Clock) -> None:
    class Away:
        async def read(self, _: object) -> Never:
            raise DatabaseError("the server is away")

        write = read

    store = ApprovalRows(cast("Database", Away()), tenant_database.loop, "acme", clock=clock)
    for used in (lambda: store.put(asked()), lambda: store.take("a" * 32, "sha256:a"), store.grants):
        with pytest.raises(ApprovalQueueError, match="the server is away"):
            used()
