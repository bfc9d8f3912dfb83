"""`moonpool approvals list|show|approve|deny|outcome|rules`: answer questions of runs with `--approve queue`.

SECURITY: names, arguments and reasons come from code, servers and models. In tables and frames they reach a terminal
without control characters, and none of their lines can pass for one of ours; JSON is ASCII.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Final

import click

from moonpool.bootstrap.stores import opened_approvals
from moonpool.cli.approval_texts import (
    answerer,
    confirmed,
    covered,
    further_calls,
    grant_json,
    request_cells,
    request_frame,
    request_json,
    rule_cells,
    shown_time,
    tool_of,
)
from moonpool.cli.commands import command_group, json_lines, json_object
from moonpool.cli.config_choice import journal_of, run_named
from moonpool.cli.exit_codes import EXIT_OK
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.service_data import ChosenTenant, tenant_options
from moonpool.core.errors import InputError
from moonpool.engine.outcomes import OutcomeStore
from moonpool.features.approvals.model import ApprovalAnswerError
from moonpool.features.approvals.service import grant_terms
from moonpool.store.journals import postgres_address
from moonpool.store.paths import outcomes_dir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from moonpool.core.json import JsonObject
    from moonpool.features.approvals.model import ApprovalRequest, QueuedRequest
    from moonpool.features.approvals.service import Approvals, GrantTerms


_COLUMNS: Final = ("id", "state", "tool", "arguments", "asked by", "left")

_RULE_COLUMNS: Final = ("id", "tool", "server", "where", "for", "until", "given by")


app = command_group("The queue of approvals: questions of runs with `--approve queue`, and approval grants.")


@app.command("list")
@click.option("--all", "all_", is_flag=True, help="Also those of the last week that are over.")
@json_lines
@tenant_options
def list_(*, tenant: ChosenTenant, all_: bool, as_json: bool) -> None:
    """List requests that wait for an answer, oldest first."""
    with _opened(tenant) as approvals:
        found = approvals.requests(waiting_only=not all_)
    if as_json:
        for queued in found:
            print_json(request_json(queued))
    elif found:
        print_table(_COLUMNS, (request_cells(queued) for queued in found))
    if not found:
        remark("no request waits for approval" if not all_ else "no requests")


@app.command("show")
@click.argument("request_id", metavar="ID", help="The request; the first 8 characters of its id are enough.")
@click.option("--full", is_flag=True, help="Show all of the arguments, however long.")
@json_object
@tenant_options
def show(request_id: str, *, tenant: ChosenTenant, full: bool, as_json: bool) -> None:
    """Show one request with its arguments."""
    with _opened(tenant) as approvals:
        queued = approvals.find(request_id)
    if as_json:
        print_json(request_json(queued, full=full))
    else:
        click.echo(request_frame(queued, full=full))
    if full and queued.request.cut and not queued.request.whole:
        remark(f"not all of the arguments: {_not_kept(queued)}")


@app.command("approve")
@click.argument("request_id", metavar="ID", help="The request; the first 8 characters of its id are enough.")
@click.option("--note", default="", metavar="TEXT", help="A message for the code that asked.")
@click.option(
    "--for", "for_", metavar="DURATION", help="Also allow further calls with the same arguments: for 30m, 12h, 7d."
)
@click.option(
    "--where",
    multiple=True,
    metavar="POINTER=GLOB",
    help="With --for: whatever the others are, where this argument matches, e.g. /repo=acme/*; repeatable.",
)
@click.option("--any-arguments", is_flag=True, help="With --for: further calls with any arguments.")
@click.option("--full", is_flag=True, help="Show all of the arguments, however long.")
@json_object
@tenant_options
def approve(  # noqa: PLR0913  its options
    request_id: str,
    *,
    tenant: ChosenTenant,
    note: str,
    for_: str | None,
    where: tuple[str, ...],
    any_arguments: bool,
    full: bool,
    as_json: bool,
) -> int:
    """Show a request again and allow the one call that it asks about; with --for also further calls like it.

    At a terminal you are asked to confirm.
    """
    terms = _terms(for_, where, any_arguments=any_arguments)
    with _opened(tenant) as approvals:
        by = answerer()
        queued = approvals.approvable(request_id, by, terms=terms, saw_whole=full)
        request = queued.request
        _check_full(queued, full=full)
        if request.is_plan and request.cut and not full:
            problem = f"the plan of request {request.request_id} is longer than a screen"
            raise InputError(f"{problem}; approve it with --full, which shows all of it first")
        allowed = "the whole plan, once" if request.is_plan else "this one call"
        if terms is not None:
            until = shown_time(time.time() + terms.seconds)
            allowed += f", and further ones {covered(terms.where, same=not terms.any_arguments)} until {until}"
        question = f"Allow {allowed}? y = yes, n = no: "
        if not confirmed(request_frame(queued, full=full), question, by, as_json=as_json):
            raise ApprovalAnswerError(f"you did not say yes, so request {request.request_id} waits as before")
        queued, grant = approvals.approve(request.request_id, by, note=note, terms=terms, saw_whole=full)
        _tell_unless(approvals.was_taken(queued, by, grant), request)
    if as_json:
        given: JsonObject = {} if grant is None else {"standing": grant_json(grant)}
        print_json({**request_json(queued), **given})
        return EXIT_OK
    click.echo(f"approved {request.request_id}: this one call of {tool_of(request)}")
    if grant is not None:
        click.echo(
            f"and further ones {further_calls(grant)} until {shown_time(grant.expires_at)}; rule {grant.answer_id}"
        )
    return EXIT_OK


@app.command("deny")
@click.argument("request_id", metavar="ID", help="The request; the first 8 characters of its id are enough.")
@click.option("--note", default="", metavar="TEXT", help="A message for the code that asked.")
@json_object
@tenant_options
def deny(request_id: str, *, tenant: ChosenTenant, note: str, as_json: bool) -> int:
    """Refuse the call that a request asks about."""
    with _opened(tenant) as approvals:
        by = answerer()
        queued = approvals.deny(request_id, by, note=note)
        _tell_unless(approvals.was_taken(queued, by), queued.request)
    told = f"denied {queued.request_id}: {tool_of(queued.request)}"
    click.echo(json.dumps(request_json(queued)) if as_json else told)
    return EXIT_OK


@app.command("outcome")
@click.argument("name", metavar="ID", help="The request, or the run (run_..., or last).")
@tenant_options
def outcome(name: str, *, tenant: ChosenTenant) -> None:
    """Print the outcome of a run whose caller had disconnected when it ended."""
    run_id = run_named(name, journal_of(tenant.settings, tenant.org))
    if not run_id.startswith("run_"):
        with _opened(tenant) as approvals:
            run_id = approvals.find(name).request.run_id
    found = _kept(tenant, run_id)
    if found is None:
        raise InputError(
            f"no outcome of {run_id[:80]} is kept: it still runs, gave its outcome to its caller, ended with its "
            "process, or is older than a week"
        )
    print_json(found)


@app.command("rules")
@click.option("--remove", metavar="ID", help="End this one: its calls are asked about again.")
@json_lines
@tenant_options
def rules(*, tenant: ChosenTenant, remove: str | None, as_json: bool) -> None:
    """List approval grants, or end one."""
    with _opened(tenant) as approvals:
        if remove is not None:
            click.echo(f"removed {approvals.remove_grant(remove, answerer())}")
            return
        found = approvals.grants()
    if as_json:
        for grant in found:
            print_json(grant_json(grant))
    elif found:
        print_table(_RULE_COLUMNS, (rule_cells(grant) for grant in found))
    if not found:
        remark("there is no approval grant")


def _kept(tenant: ChosenTenant, run_id: str) -> JsonObject | None:
    """Its outcome, also if a replica of the service kept it in PostgreSQL."""
    if (found := OutcomeStore(outcomes_dir(tenant.folder)).find(run_id)) is not None:
        return found
    if (address := postgres_address(tenant.settings, tenant.data)) is None:
        return None
    from moonpool.engine.shared_executions import kept_outcome
    from moonpool.store.postgres_connections import open_connections

    async def read() -> JsonObject | None:
        async with open_connections(address) as connections:
            return await kept_outcome(connections, tenant.tenant_id, run_id)

    return asyncio.run(read())


def _opened(tenant: ChosenTenant) -> AbstractContextManager[Approvals]:
    return opened_approvals(tenant.settings, tenant.data, tenant.tenant_id)


def _check_full(queued: QueuedRequest, *, full: bool) -> None:
    if full and queued.request.cut and not queued.request.whole:
        raise InputError(f"all arguments of request {queued.request_id} cannot be shown: {_not_kept(queued)}")


def _not_kept(queued: QueuedRequest) -> str:
    over = f"of a request that is over ({queued.state}) a screen of them is kept"
    return "they are too long to be kept" if queued.state == "waiting" else over


def _terms(duration: str | None, where: Sequence[str], *, any_arguments: bool) -> GrantTerms | None:
    """The terms in `--for`, `--where` and `--any-arguments`. Raises InputError."""
    if duration is not None:
        return grant_terms(duration, where, any_arguments=any_arguments)
    if where or any_arguments:
        name = "--where" if where else "--any-arguments"
        raise InputError(f"{name} says which further calls are allowed; give --for with it")
    return None


def _tell_unless(taken: bool, request: ApprovalRequest) -> None:
    if not taken:
        told = "the process that asked has not taken the answer yet; what becomes of it"
        remark(f"{told}: moonpool approvals show {request.request_id}")
