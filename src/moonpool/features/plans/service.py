"""Plans as use cases: keep what a dry run found, answer it, run under it once.

`Plans` is what sessions and the command line share. A plan is answered by a person through the approver in force, or
with `moonpool plans approve`; a request to run only ever names a plan, it cannot carry an answer.

SECURITY: whoever answers says who they are and whether a person is there; a plan with a call that policy reserves for
a person is not approved otherwise. A plan is used by its own principal, for its own code, language, policy and servers,
once.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.audit import JournalError
from moonpool.core.audit_records import PlanRecord, time_stamp
from moonpool.core.calls import ApprovalState
from moonpool.core.json import digest_bytes
from moonpool.features.approvals.model import PROGRAMS
from moonpool.features.plans.model import PlanError, PlanState, PlanStoreError, StoredPlan
from moonpool.features.plans.planning import plan_question
from moonpool.pipeline.planned_run import PlanWatch
from moonpool.store.outbox import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.features.approvals.model import Answerer, ApprovalAnswer
    from moonpool.features.plans.model import Plan
    from moonpool.pipeline.approval import ApprovalService
    from moonpool.pipeline.caller_grant import CallerGrant

NOBODY: Final = "application:no-calls"
FAILED_REHEARSAL: Final = "application:failed-rehearsal"
_PREFIX_CHARS_MIN: Final = 8
_LOOK_S: Final = 1.0
"""How often it is looked whether somebody else has answered a plan that is asked about."""


class PlanStorage(Protocol):
    """Keeps plans, in a file or in a database. Blocking; its methods raise PlanStoreError."""

    def deliver_left(self, write: Callable[..., None], /) -> None: ...
    def put(self, plan: Plan, delivery: Delivery | None = None, /) -> None: ...
    def plans(self) -> Sequence[StoredPlan]: ...
    def find(self, plan_id: str, /) -> StoredPlan | None: ...
    def answer(
        self, plan: Plan, /, *, approved: bool, approver: str, by_person: bool, delivery: Delivery | None = None
    ) -> None: ...
    def take(self, plan: Plan, delivery: Delivery | None = None, /) -> None: ...


class Plans:
    """The plans of an installation."""

    def __init__(
        self,
        store: PlanStorage,
        record: Callable[[PlanRecord], None],
        *,
        expiry_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`record` writes to the audit journal and returns when that is durable. Blocking; raises JournalError."""
        self._store, self._record, self._expiry_s, self._clock = store, record, expiry_s, clock

    # --- blocking: for commands

    def plans(self) -> Sequence[StoredPlan]:
        """Plans of the last week, oldest first. Raises PlanStoreError."""
        self._store.deliver_left(self._record)
        return self._store.plans()

    def find(self, plan_id: str) -> StoredPlan:
        """The plan of this id, or whose id begins so. Raises PlanError, PlanStoreError."""
        self._store.deliver_left(self._record)
        if plan_id.isascii() and (exact := self._store.find(plan_id)) is not None:
            return exact
        short = plan_id if plan_id.startswith("plan_") else f"plan_{plan_id}"
        long_enough = len(short) >= len("plan_") + _PREFIX_CHARS_MIN
        found = [one for one in self._store.plans() if one.plan.plan_id.startswith(short)] if long_enough else []
        if len(found) == 1:
            return found[0]
        raise PlanError(f"there is no plan {plan_id[:80]!r}; `moonpool plans list` shows those")

    def approve(self, plan_id: str, answerer: Answerer) -> StoredPlan:
        """Say yes to the whole plan. Raises PlanError, PlanStoreError, JournalError; then nothing was answered."""
        plan = self.approvable(plan_id, answerer).plan
        return self._answer(plan, approved=True, approver=answerer.name, by_person=answerer.person)

    def approvable(self, plan_id: str, answerer: Answerer) -> StoredPlan:
        """The plan, if `approve` would take this answer. Raises PlanError, PlanStoreError."""
        stored = self.find(plan_id)
        plan = stored.plan
        if stored.state is not PlanState.WAITING:
            raise PlanError(f"plan {plan.plan_id} cannot be answered: it is {stored.state}; make another dry run")
        if plan.problem:
            raise PlanError(f"plan {plan.plan_id} cannot be approved: {plan.problem}")
        if problem := answerer.problem(principal=plan.principal, human_only=plan.human_only):
            remedy = "run `moonpool plans approve` at a terminal, in its foreground"
            raise PlanError(f"plan {plan.plan_id} cannot be approved so: {problem}; {remedy}")
        return stored

    def deny(self, plan_id: str, answerer: Answerer) -> StoredPlan:
        """Say no, also to a plan that was approved and not used yet. Raises PlanError, PlanStoreError, JournalError."""
        return self._answer(self.find(plan_id).plan, approved=False, approver=answerer.name, by_person=answerer.person)

    # --- for executions

    def make(self, plan: Plan) -> Plan:
        """Keep `plan`, which has no times yet. Blocking. Raises PlanStoreError, JournalError."""
        now = self._clock()
        plan = replace(plan, made_at=now, expires_at=now + self._expiry_s)
        self._store.put(plan, Delivery(_record_of(plan, "made", ""), self._record))
        if not plan.problem and not plan.calls:
            self._answer(plan, approved=True, approver=NOBODY, by_person=False)
        return plan

    async def withdraw(self, plan: Plan) -> None:
        """Deny a plan that was kept of a rehearsal that failed after all. Raises PlanError, PlanStoreError."""
        try:
            await asyncio.to_thread(
                lambda: self._answer(plan, approved=False, approver=FAILED_REHEARSAL, by_person=False)
            )
        except (JournalError, RuntimeError):  # SECURITY: also where that cannot be recorded, or no thread is started
            self._store.answer(plan, approved=False, approver=FAILED_REHEARSAL, by_person=False)

    async def take(
        self, plan_id: str, caller_grant: CallerGrant, *, code: bytes, language: str, run_id: str = ""
    ) -> PlanWatch:
        """Take the plan of this id for `code`, once; ask whoever may approve it when nobody has.

        Raises PlanError, PlanStoreError, JournalError: then nothing may run. `run_id` is in whose name is asked.
        """
        stored = await asyncio.to_thread(self.find, plan_id)
        plan = stored.plan
        # SECURITY: first of all, so that nobody learns of, or is asked about, a plan that is not theirs.
        if plan.principal != caller_grant.principal:
            raise PlanError(f"there is no plan {plan_id[:80]!r}; `moonpool plans list` shows those")
        if problem := _other(plan, caller_grant, code, language):
            raise PlanError(f"plan {plan.plan_id} was made for {problem}; make another dry run")
        if stored.state is PlanState.WAITING:
            stored = await self._ask(plan, caller_grant.approvals, run_id)
        await asyncio.to_thread(self._store.take, plan, Delivery(_record_of(plan, "used", ""), self._record))
        return PlanWatch(plan=plan, approver=stored.approver, by_person=stored.by_person)

    async def _ask(self, plan: Plan, approvals: ApprovalService | None, run_id: str) -> StoredPlan:
        if plan.problem:
            raise PlanError(f"plan {plan.plan_id} cannot be approved: {plan.problem}")
        if approvals is None:
            raise PlanError(
                f"plan {plan.plan_id} is not approved yet; approve it: moonpool plans approve {plan.plan_id}"
            )
        answer = await self._settled(plan, approvals, run_id)
        if isinstance(answer, StoredPlan):
            return answer
        if answer.state is ApprovalState.REJECTED and answer.approver.startswith("application:"):
            # Nobody has looked at it: the plan goes on waiting for somebody who does.
            raise PlanError(
                f"plan {plan.plan_id} is not approved: {answer.note or 'there was no answer'}; "
                f"approve it: moonpool plans approve {plan.plan_id}"
            )
        if answer.state is ApprovalState.EXPIRED:
            raise PlanError(f"plan {plan.plan_id} is not approved: {answer.note}")
        approved = answer.state is ApprovalState.APPROVED
        person = approved and not answer.approver.startswith(PROGRAMS)
        stored = await asyncio.to_thread(
            lambda: self._answer(plan, approved=approved, approver=answer.approver, by_person=person)
        )
        if not approved:
            raise PlanError(f"plan {plan.plan_id} was denied{': ' if answer.note else ''}{answer.note}")
        return stored

    async def _settled(self, plan: Plan, approvals: ApprovalService, run_id: str) -> ApprovalAnswer | StoredPlan:
        """The answer of whoever was asked; the plan as it is where somebody else approved it meanwhile.

        Raises PlanError where it was denied, used or expired meanwhile.
        """
        asking = asyncio.ensure_future(approvals.settle(plan_question(plan, run_id)))
        try:
            while not (await asyncio.wait({asking}, timeout=_LOOK_S))[0]:
                with suppress(PlanStoreError):  # a change that is not on record yet does not count yet
                    stored = await asyncio.to_thread(self._store.find, plan.plan_id)
                    if stored is not None and stored.state is PlanState.APPROVED:
                        return stored
                    if stored is None or stored.state is not PlanState.WAITING:
                        became = "gone" if stored is None else stored.state
                        raise PlanError(f"plan {plan.plan_id} is {became}; make another dry run")
            return asking.result()
        finally:
            asking.cancel()  # the question is withdrawn before this returns
            await asyncio.wait({asking})

    def _answer(self, plan: Plan, *, approved: bool, approver: str, by_person: bool) -> StoredPlan:
        what = "approved" if approved else "denied"
        self._store.answer(
            plan,
            approved=approved,
            approver=approver,
            by_person=by_person,
            delivery=Delivery(_record_of(plan, what, approver), self._record),
        )
        stored = self._store.find(plan.plan_id)
        assert stored is not None
        return stored


async def keep_plan(plans: Plans | None, plan: Plan) -> Plan:
    """Keep `plan`; one that cannot be kept has that as its problem."""
    if plans is None:
        return replace(plan, problem=plan.problem or "no plans are kept here")
    try:
        return await asyncio.to_thread(plans.make, plan)
    except (PlanStoreError, JournalError) as error:
        return replace(plan, problem=f"it could not be kept: {error}")


def _other(plan: Plan, caller_grant: CallerGrant, code: bytes, language: str) -> str:
    if plan.code_digest != digest_bytes(code):
        return "other code"
    if plan.language != language:
        return f"{plan.language}, not {language}"
    if plan.policy_digest != caller_grant.policy_digest:
        return "another policy"
    # SECURITY: what was approved for one server is not done to another that is called the same.
    planned = {server.server_id: server.digest for server in plan.servers}
    for server_id in dict.fromkeys(effect.server_id for effect in plan.effects):
        trust = caller_grant.servers.get(server_id)
        if trust is None or trust.digest != planned.get(server_id):
            return f"another configuration of server {server_id!r}"
    return ""


def _record_of(plan: Plan, what: str, approver: str) -> PlanRecord:
    return PlanRecord(
        run_id=plan.plan_id,
        at=time_stamp(datetime.now(UTC)),
        what=what,
        principal=plan.principal,
        approver=approver,
        plan_digest=plan.digest,
        code_digest=plan.code_digest,
        calls=len(plan.calls),
        rehearsal=plan.run_id,
    )
