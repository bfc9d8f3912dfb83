"""Plans for people and programs.

SECURITY: names, arguments and reasons come from code, servers and models. Nothing of them reaches a terminal as a
control character, and no line of theirs can be taken for one of ours; JSON is ASCII.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer

from moonpool.cli.approval_reports import answerer, confirmed, shown_left, shown_time
from moonpool.cli.approvers import put_on_record
from moonpool.cli.config_choice import data_folder
from moonpool.cli.exit_codes import EXIT_OK
from moonpool.cli.terminal_approver import PLAN_CHARS_MAX, hanging, visible
from moonpool.core.plans import PlanError, PlanState
from moonpool.runtime.planning import plan_lines
from moonpool.runtime.plans import Plans
from moonpool.settings import Settings
from moonpool.store.paths import journal_path, plans_path
from moonpool.store.plans import PlanStore

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.core.json import JsonObject
    from moonpool.core.plans import StoredPlan

_ID_CHARS: Final = 17
_NAME_CHARS_MAX: Final = 300
_COLUMNS: Final = ("id", "state", "calls", "language", "whose", "left")
_OPEN: Final = frozenset({PlanState.WAITING, PlanState.APPROVED})


@contextmanager
def _opened() -> Generator[Plans]:
    settings = Settings.load(os.environ)
    data = data_folder(settings)
    yield Plans(
        PlanStore(plans_path(data)),
        lambda record: put_on_record(journal_path(data), record),
        expiry_s=settings.plan_expiry_s,
    )


def print_plans(*, open_only: bool, as_json: bool) -> None:
    """List plans; a remark on stderr when there are none."""
    with _opened() as plans:
        found = [one for one in plans.plans() if one.state in _OPEN or not open_only]
    if as_json:
        for one in found:
            typer.echo(json.dumps(_json(one)))
    elif found:
        from moonpool.cli.tables import print_table

        print_table(_COLUMNS, (_cells(one) for one in found))
    if not found:
        typer.echo("moonpool: no plan waits or is approved" if open_only else "moonpool: no plans", err=True)


def print_plan(plan_id: str, *, full: bool, as_json: bool) -> None:
    """One plan with all its calls. Raises PlanError."""
    with _opened() as plans:
        found = plans.find(plan_id)
    typer.echo(json.dumps(_json(found)) if as_json else _frame(found, full=full))


def approve_plan(plan_id: str, *, full: bool, as_json: bool) -> int:
    """Show the plan again and approve it. Raises PlanError, PlanStoreError, JournalError."""
    with _opened() as plans:
        by = answerer()
        found = plans.approvable(plan_id, by)
        question = "Allow the whole plan, once? y = yes, n = no: "
        if not confirmed(_frame(found, full=full), question, by, as_json=as_json):
            raise PlanError(f"you did not say yes, so plan {found.plan.plan_id} is as it was")
        answered = plans.approve(found.plan.plan_id, by)
    return _told(answered, as_json=as_json)


def deny_plan(plan_id: str, *, as_json: bool) -> int:
    """Raises PlanError, PlanStoreError, JournalError."""
    with _opened() as plans:
        answered = plans.deny(plan_id, answerer())
    return _told(answered, as_json=as_json)


def _told(answered: StoredPlan, *, as_json: bool) -> int:
    count = len(answered.plan.calls)
    told = f"{answered.state} {answered.plan.plan_id}: {count} call{'s' if count != 1 else ''}"
    typer.echo(json.dumps(_json(answered)) if as_json else told)
    return EXIT_OK


def _cells(one: StoredPlan) -> tuple[str, ...]:
    plan = one.plan
    left = shown_left(plan.expires_at) if one.state in _OPEN else ""
    state = f"{one.state} (cannot be approved)" if plan.problem and one.state is PlanState.WAITING else str(one.state)
    whose = visible(plan.principal, _NAME_CHARS_MAX)
    return (plan.plan_id[:_ID_CHARS], state, str(len(plan.calls)), plan.language, whose, left)


def _frame(one: StoredPlan, *, full: bool) -> str:
    plan = one.plan
    width = max(20, shutil.get_terminal_size().columns)
    kind = "; policy wants a person to approve it" if plan.human_only else ""
    by = f" by {visible(one.approver, _NAME_CHARS_MAX)}" if one.approver else ""
    head = f"{plan.plan_id}: {one.state}{by}{kind}; until {shown_time(plan.expires_at)}"
    told = [
        f"whose: {visible(plan.principal, _NAME_CHARS_MAX)}",
        f"code: {plan.code_digest} ({plan.language})",
        f"rehearsed as: {plan.run_id}",
        *([f"cannot be approved: {visible(plan.problem, PLAN_CHARS_MAX)}"] if plan.problem else []),
        *(visible(line, PLAN_CHARS_MAX) for line in plan_lines(plan, whole=full)),
    ]
    lines = [line for text in told for line in hanging(text, width)]
    more = ["not all of it is shown; --full shows the rest"] if plan.cut and not full else []
    return "\n".join([head, "┌─ plan", *(f"│ {line}" for line in lines), "└─", *more])


def _json(one: StoredPlan) -> JsonObject:
    plan = one.plan
    return {
        **plan.to_json(),
        # SECURITY: without digests of configurations, from which a short secret in one could be guessed.
        "servers": [
            {"server": one.server_id, "address": one.address, "config_file": one.config_file} for one in plan.servers
        ],
        "state": str(one.state),
        "approver": one.approver,
        "digest": plan.digest,
        "human_only": plan.human_only,
        "made_at": shown_time(plan.made_at),
        "expires_at": shown_time(plan.expires_at),
    }
