"""Who may answer over HTTP: with the scope, never what one's own code asks, and as a person only what needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from moonpool.features.approvals.model import ApprovalAnswerError, ApprovalRequest, QueuedRequest, QueueState
from moonpool.features.approvals.service import Approvals, grant_terms
from moonpool.features.approvals.table import ApprovalStore
from moonpool.server.http.answering import answerer_of
from moonpool.server.http.callers import HttpCaller, ScopeError
from moonpool.store.process_marks import is_gone, own_mark
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from moonpool.core.audit_records import ApprovalGrantRecord
    from moonpool.core.scopes import Scope

ISSUER = "https://login.example.com"
NOW = 1_000_000.0


def caller(principal: str, *scopes: Scope, person: bool = False) -> HttpCaller:
    given = frozenset(scopes or ("execute", "approve"))
    return HttpCaller(organisation="acme", principal=principal, scopes=given, is_person=person)


ALICE = caller(f"user:{ISSUER}#alice", person=True)
BOB = caller(f"user:{ISSUER}#bob", person=True)
KEY = caller("key:7")
MACHINE = caller(f"client:{ISSUER}#robot")


@pytest.fixture
def records() -> list[ApprovalGrantRecord]:
    return []


@pytest.fixture
def approvals(tmp_path: Path, records: list[ApprovalGrantRecord]) -> Iterator[tuple[ApprovalStore, Approvals]]:
    store = ApprovalStore(tmp_path / "private" / "approvals.sqlite3", is_gone=is_gone, clock=lambda: NOW)
    yield store, Approvals(store, records.append, clock=lambda: NOW)
    store.close()


def ask(store: ApprovalStore, request_id: str, asking: HttpCaller, *, human_only: bool = False) -> str:
    request = ApprovalRequest(
        request_id=request_id * 32, run_id="run", principal=asking.principal, server_id="git", tool_name="push",
        arguments="{}", arguments_digest="sha256:a", reason="no rule", human_only=human_only,
    )  # fmt: skip
    store.put(QueuedRequest(request=request, asked_at=NOW, expires_at=NOW + 600, owner=own_mark()))
    return request.request_id


MAY: list[tuple[HttpCaller, HttpCaller, bool, str]] = [
    (ALICE, BOB, False, ""),
    (ALICE, BOB, True, ""),
    (KEY, ALICE, True, ""),
    (ALICE, KEY, False, ""),
    (KEY, MACHINE, False, ""),
    (ALICE, ALICE, False, "nobody approves what their own code asks"),
    (ALICE, ALICE, True, "nobody approves what their own code asks"),
    (KEY, KEY, False, "nobody approves what their own code asks"),
    (ALICE, KEY, True, "policy wants a person"),
    (ALICE, MACHINE, True, "policy wants a person"),
]


@every_row(("asking", "answering", "human_only", "problem"), MAY)
def test_who_may_approve_what(asking: HttpCaller, answering: HttpCaller, human_only: bool, problem: str) -> None:
    told = answerer_of(answering).problem(principal=asking.principal, human_only=human_only)
    assert told.startswith(problem)
    assert bool(told) == bool(problem)


def test_without_the_scope_nothing_is_answered() -> None:
    with pytest.raises(ScopeError, match="lacks the scope approve"):
        answerer_of(caller("key:8", "execute", "files", "admin"))


@pytest.mark.req("X-06")
def test_nobody_approves_their_own_codes_calls(approvals: tuple[ApprovalStore, Approvals]) -> None:
    store, answers = approvals
    asked = ask(store, "a", ALICE)
    for terms in (None, grant_terms("1h")):
        with pytest.raises(ApprovalAnswerError, match="nobody approves what their own code asks"):
            answers.approve(asked, answerer_of(ALICE), terms=terms)
    with pytest.raises(ApprovalAnswerError, match="nobody approves"):  # nor for a while, whatever waits elsewhere
        answers.give(answers.find(asked).request, answerer_of(ALICE), grant_terms("1h"))
    assert answers.find(asked).state is QueueState.WAITING
    answered, _ = answers.approve(asked, answerer_of(KEY))
    assert (answered.state, answered.approver) == (QueueState.APPROVED, "api:key:7")


@pytest.mark.req("X-06")
def test_only_a_person_answers_what_is_for_a_person(approvals: tuple[ApprovalStore, Approvals]) -> None:
    store, answers = approvals
    asked = ask(store, "b", ALICE, human_only=True)
    for program in (KEY, MACHINE):
        with pytest.raises(ApprovalAnswerError, match="policy wants a person"):
            answers.approve(asked, answerer_of(program))
    answered, _ = answers.approve(asked, answerer_of(BOB))
    assert answered.approver == f"user:{ISSUER}#bob"


def test_everybody_may_say_no_to_their_own_code(approvals: tuple[ApprovalStore, Approvals]) -> None:
    store, answers = approvals
    asked = ask(store, "c", ALICE, human_only=True)
    assert answers.deny(asked, answerer_of(ALICE)).state is QueueState.DENIED
