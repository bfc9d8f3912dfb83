"""`moonpool plans list|show|approve|deny`: approve or deny what dry runs listed.

SECURITY: names, arguments and reasons come from code, servers and models. They reach a terminal without control
characters, and none of their lines can pass for one of ours; JSON is ASCII.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from moonpool.bootstrap.stores import opened_stores
from moonpool.cli.approval_texts import answerer, confirmed, shown_left, shown_time
from moonpool.cli.commands import command_group, json_lines, json_object
from moonpool.cli.exit_codes import EXIT_OK
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.service_data import ChosenTenant, tenant_options
from moonpool.core.phrases import counted
from moonpool.features.plans.model import PlanError, PlanState
from moonpool.features.plans.planning import plan_lines
from moonpool.features.plans.service import Plans
from moonpool.store.journals import put_on_record
from moonpool.terminal.approver import PLAN_CHARS_MAX, hanging, visible

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.core.json import JsonObject
    from moonpool.features.plans.model import StoredPlan

_ID_CHARS: Final = 17

_NAME_CHARS_MAX: Final = 300

_COLUMNS: Final = ("id", "state", "calls", "language", "whose", "left")

_OPEN: Final = frozenset({PlanState.WAITING, PlanState.APPROVED})

app = command_group("Plans of dry runs: the calls that code wants to make, approved as a whole and used once.")


@app.command("list")
@click.option("--all", "all_", is_flag=True, help="Also those of the last week that are over.")
@json_lines
@tenant_options
def list_(*, tenant: ChosenTenant, all_: bool, as_json: bool) -> None:
    """List plans that wait or are approved, oldest first."""
    with _opened(tenant) as plans:
        found = [one for one in plans.plans() if one.state in _OPEN or all_]
    if as_json:
        for one in found:
            print_json(_json(one))
    elif found:
        print_table(_COLUMNS, (_cells(one) for one in found))
    if not found:
        remark("no plan waits or is approved" if not all_ else "no plans")


@app.command("show")
@click.argument("plan_id", metavar="ID", help="The plan; the first 8 characters after `plan_` are enough.")
@click.option("--full", is_flag=True, help="Also what is hidden because it looks like a secret.")
@json_object
@tenant_options
def show(plan_id: str, *, tenant: ChosenTenant, full: bool, as_json: bool) -> None:
    """Show every call of a plan with its arguments."""
    with _opened(tenant) as plans:
        found = plans.find(plan_id)
    if as_json:
        print_json(_json(found))
    else:
        click.echo(_frame(found, full=full))


@app.command("approve")
@click.argument("plan_id", metavar="ID", help="The plan; the first 8 characters after `plan_` are enough.")
@click.option("--full", is_flag=True, help="Also what is hidden because it looks like a secret.")
@json_object
@tenant_options
def approve(plan_id: str, *, tenant: ChosenTenant, full: bool, as_json: bool) -> int:
    """Show a plan again and allow all of its calls, once: `moonpool run FILE --plan ID`.

    At a terminal you are asked to confirm.
    """
    with _opened(tenant) as plans:
        by = answerer()
        found = plans.approvable(plan_id, by)
        question = "Allow the whole plan, once? y = yes, n = no: "
        if not confirmed(_frame(found, full=full), question, by, as_json=as_json):
            raise PlanError(f"you did not say yes, so plan {found.plan.plan_id} is as it was")
        answered = plans.approve(found.plan.plan_id, by)
    return _report(answered, as_json=as_json)


@app.command("deny")
@click.argument("plan_id", metavar="ID", help="The plan; the first 8 characters after `plan_` are enough.")
@json_object
@tenant_options
def deny(plan_id: str, *, tenant: ChosenTenant, as_json: bool) -> int:
    """Refuse a plan, or withdraw an approval that was not used yet."""
    with _opened(tenant) as plans:
        answered = plans.deny(plan_id, answerer())
    return _report(answered, as_json=as_json)


@contextmanager
def _opened(tenant: ChosenTenant) -> Generator[Plans]:
    settings, data = tenant.settings, tenant.data
    records = partial(put_on_record, settings, data, tenant_id=tenant.tenant_id)
    with opened_stores(settings, data, tenant.tenant_id) as stores:
        yield Plans(stores.plans(), records, expiry_s=settings.plan_expiry_s)


def _report(answered: StoredPlan, *, as_json: bool) -> int:
    told = f"{answered.state} {answered.plan.plan_id}: {counted(len(answered.plan.calls), 'call')}"
    click.echo(json.dumps(_json(answered)) if as_json else told)
    if answered.state is PlanState.APPROVED:
        remark(f"to run it: moonpool run FILE --plan {answered.plan.plan_id}, with the same code and options")
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
        f"dry run: {plan.run_id}",
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
        # SECURITY: without digests of configurations, from which a short secret could be guessed.
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
