"""The queue of approvals for people and programs.

SECURITY: names, arguments and reasons come from code, servers and models. In tables and frames nothing of them reaches
a terminal as a control character, and no line of theirs can be taken for one of ours; JSON is ASCII.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from moonpool.broker.approval import server_place
from moonpool.broker.readable import in_one_line
from moonpool.cli.approvers import opened_approvals, user_name
from moonpool.cli.config_choice import data_folder
from moonpool.cli.exit_codes import EXIT_OK
from moonpool.cli.last_run import run_named
from moonpool.cli.terminal import ask_at, open_terminal
from moonpool.cli.terminal_approver import hanging, visible
from moonpool.core.approvals import WHOLE_CHARS_MAX, ApprovalAnswerError
from moonpool.core.errors import InputError
from moonpool.core.lookalikes import shown_name
from moonpool.core.policy import entry_decides, operators_remedy
from moonpool.runtime.approvals import Answerer, standing_terms
from moonpool.settings import Settings
from moonpool.store.outcomes import OutcomeStore
from moonpool.store.paths import outcomes_dir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from moonpool.core.approvals import QueuedRequest, StandingAnswer
    from moonpool.core.json import JsonObject
    from moonpool.core.policy import Condition
    from moonpool.runtime.approvals import Approvals, StandingTerms

_ID_CHARS: Final = 12
_CELL_CHARS_MAX: Final = 60
_NAME_CHARS_MAX: Final = 300
_TEXT_CHARS_MAX: Final = 8000
_COLUMNS: Final = ("id", "state", "tool", "arguments", "asked by", "left")
_RULE_COLUMNS: Final = ("id", "tool", "server", "where", "for", "until", "given by")
_YES: Final = frozenset({"y", "yes"})


def _opened() -> AbstractContextManager[Approvals]:
    return opened_approvals(data_folder(Settings.load(os.environ)))


def print_requests(*, waiting_only: bool, as_json: bool) -> None:
    """List requests; a remark on stderr when there are none."""
    with _opened() as approvals:
        found = approvals.requests(waiting_only=waiting_only)
    if as_json:
        for request in found:
            typer.echo(json.dumps(_request_json(request)))
    elif found:
        from moonpool.cli.tables import print_table

        print_table(_COLUMNS, (_cells(request) for request in found))
    if not found:
        typer.echo("moonpool: no request waits for approval" if waiting_only else "moonpool: no requests", err=True)


def print_request(request_id: str, *, full: bool, as_json: bool) -> None:
    """One request; `full`: all of its arguments, however long. Raises ApprovalAnswerError, InputError."""
    with _opened() as approvals:
        request = approvals.find(request_id)
    typer.echo(json.dumps(_request_json(request, full=full)) if as_json else _frame(request, full=full))
    if full and request.cut and not request.whole:
        typer.echo(f"moonpool: not all of the arguments: {_not_kept(request)}", err=True)


def print_outcome(name: str) -> None:
    """Print the envelope of an execution whose caller was gone, by its run id, `last`, or a request of it."""
    data = data_folder(Settings.load(os.environ))
    run_id = run_named(name, data)
    if not run_id.startswith("run_"):
        with _opened() as approvals:
            run_id = approvals.find(name).run_id
    found = OutcomeStore(outcomes_dir(data)).find(run_id)
    if found is None:
        raise InputError(
            f"no outcome of {run_id[:80]} is kept: it still runs, gave its outcome to its caller, ended with its "
            "process, or is older than a week"
        )
    typer.echo(json.dumps(found))


def _check_full(request: QueuedRequest, *, full: bool) -> None:
    if full and request.cut and not request.whole:
        raise InputError(f"all arguments of request {request.request_id} cannot be shown: {_not_kept(request)}")


def _not_kept(request: QueuedRequest) -> str:
    over = f"of a request that is over ({request.state}) a screen of them is kept"
    return "they are too long to be kept" if request.state == "waiting" else over


def terms_of(duration: str | None, where: Sequence[str], *, any_arguments: bool) -> StandingTerms | None:
    """What `--for`, `--where` and `--any-arguments` say. Raises InputError."""
    if duration is not None:
        return standing_terms(duration, where, any_arguments=any_arguments)
    if where or any_arguments:
        name = "--where" if where else "--any-arguments"
        raise InputError(f"{name} says which further calls are allowed; give --for with it")
    return None


def answer_yes(request_id: str, note: str, terms: StandingTerms | None, *, full: bool, as_json: bool) -> int:
    """Show the request again and approve it; says what was allowed.

    Raises InputError, ApprovalAnswerError, ApprovalQueueError: then nothing was answered.
    """
    with _opened() as approvals:
        by = answerer()
        request = approvals.approvable(request_id, by, terms=terms, saw_whole=full)
        _check_full(request, full=full)
        if request.is_plan and request.cut and not full:
            problem = f"the plan of request {request.request_id} is longer than a screen"
            raise InputError(f"{problem}; approve it with --full, which shows all of it first")
        allowed = "the whole plan, once" if request.is_plan else "this one call"
        if terms is not None:
            until = shown_time(time.time() + terms.seconds)
            allowed += f", and further ones {_covered(terms.where, same=not terms.any_arguments)} until {until}"
        question = f"Allow {allowed}? y = yes, n = no: "
        if not confirmed(_frame(request, full=full), question, by, as_json=as_json):
            raise ApprovalAnswerError(f"you did not say yes, so request {request.request_id} waits as before")
        request, standing = approvals.approve(request.request_id, by, note=note, terms=terms, saw_whole=full)
        _tell_unless(approvals.was_taken(request, by, standing), request)
    if as_json:
        given: JsonObject = {} if standing is None else {"standing": _standing_json(standing)}
        typer.echo(json.dumps({**_request_json(request), **given}))
        return EXIT_OK
    typer.echo(f"approved {request.request_id}: this one call of {_tool(request)}")
    if standing is not None:
        typer.echo(
            f"and further ones {_where(standing)} until {shown_time(standing.expires_at)}; rule {standing.answer_id}"
        )
    return EXIT_OK


def answer_no(request_id: str, note: str, *, as_json: bool) -> int:
    with _opened() as approvals:
        by = answerer()
        request = approvals.deny(request_id, by, note=note)
        _tell_unless(approvals.was_taken(request, by), request)
    typer.echo(json.dumps(_request_json(request)) if as_json else f"denied {request.request_id}: {_tool(request)}")
    return EXIT_OK


def _tell_unless(taken: bool, request: QueuedRequest) -> None:
    if not taken:
        told = "the process that asked has not taken the answer yet; what becomes of it"
        typer.echo(f"moonpool: {told}: moonpool approvals show {request.request_id}", err=True)


def print_standing(remove: str | None, *, as_json: bool) -> None:
    """List standing answers, or end one."""
    with _opened() as approvals:
        if remove is not None:
            typer.echo(f"removed {approvals.remove_standing(remove, answerer())}")
            return
        found = approvals.standing()
    if as_json:
        for standing in found:
            typer.echo(json.dumps(_standing_json(standing)))
    elif found:
        from moonpool.cli.tables import print_table

        print_table(_RULE_COLUMNS, (_rule_cells(standing) for standing in found))
    if not found:
        typer.echo("moonpool: no answer stands for longer than its call", err=True)


def confirmed(shown: str, question: str, by: Answerer, *, as_json: bool) -> bool:
    """Show what is about to be approved; a person has to say yes to that, at the terminal.

    A program has said yes already; for whoever reads its output it is printed, unless that is JSON.
    """
    if not by.person:
        if not as_json:
            typer.echo(shown)
        return True
    terminal = open_terminal()
    if terminal is None:  # in the background by now
        return False
    try:
        return ask_at(terminal, f"{shown}\n{question}").lower() in _YES
    finally:
        os.close(terminal)


def answerer() -> Answerer:
    """You; a person only where a terminal is there to have shown the question on."""
    terminal = open_terminal()
    if terminal is None:
        return Answerer(name=f"command:{user_name()}", person=False)
    os.close(terminal)
    return Answerer(name=f"terminal:{user_name()}", person=True)


def shown_left(expires_at: float) -> str:
    """How long it is until then, in the largest unit of which there are two."""
    left_s = max(0.0, expires_at - time.time())
    for seconds, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if left_s >= 2 * seconds:
            return f"{left_s // seconds:.0f} {unit}"
    return f"{left_s:.0f} s"


def _cells(request: QueuedRequest) -> tuple[str, ...]:
    left = shown_left(request.expires_at) if request.state == "waiting" else ""
    arguments = visible(in_one_line(request.arguments), _CELL_CHARS_MAX)
    state = f"{request.state} (a person)" if request.human_only and request.state == "waiting" else str(request.state)
    return (request.request_id[:_ID_CHARS], state, _tool(request), arguments, request.principal, left)


def _rule_cells(standing: StandingAnswer) -> tuple[str, ...]:
    tool = visible(f"{standing.server_id}.{shown_name(standing.tool_name)}", _NAME_CHARS_MAX)
    until = shown_time(standing.expires_at)
    server = visible(standing.server_address, _CELL_CHARS_MAX)
    return (standing.answer_id, tool, server, _where(standing), standing.principal, until, standing.given_by)


def _frame(request: QueuedRequest, *, full: bool) -> str:
    """SECURITY: what is of hostile origin stands behind `│ `, like at the terminal prompt."""
    width = max(20, shutil.get_terminal_size().columns)
    arguments = request.whole if full and request.whole else request.arguments
    place = server_place(request.server_id, request.server_address, request.config_file)
    kind = "; policy wants a person to answer" if request.human_only else ""
    answered = f" by {visible(request.approver, _NAME_CHARS_MAX)}" if request.approver else ""
    shown = {
        "tool": _tool(request),
        "server": visible(place, _TEXT_CHARS_MAX),
        "line of the code": str(request.code_line or ""),
        "arguments": "" if request.is_plan else visible(in_one_line(arguments), WHOLE_CHARS_MAX),
        "because": visible(request.reason, _TEXT_CHARS_MAX),
        "rule": visible(request.rule_id, _NAME_CHARS_MAX),
        "asked by": visible(request.principal, _NAME_CHARS_MAX),
        "execution": visible(request.run_id, _NAME_CHARS_MAX),
        "session": visible(request.session_id, _NAME_CHARS_MAX),
        "digest": visible(request.arguments_digest, _NAME_CHARS_MAX),
        "note": visible(request.note, _TEXT_CHARS_MAX),
        "to allow it for good": visible(_for_good(request), _TEXT_CHARS_MAX),
    }
    told = [f"{name}: {text}" for name, text in shown.items() if text]
    if request.is_plan:
        told += [visible(line, WHOLE_CHARS_MAX) for line in arguments.split("\n")]
    lines = [line for text in told for line in hanging(text, width)]
    head = f"{request.request_id}: {request.state}{answered}{kind}; until {shown_time(request.expires_at)}"
    more = "not all of it is shown; --full shows the rest" if request.whole and not full else ""
    return "\n".join([head, "┌─ request", *(f"│ {line}" for line in lines), "└─", *([more] if more else [])])


def _for_good(request: QueuedRequest) -> str:
    """The command, where the server's entry decides and no policy file does."""
    if request.is_plan or not entry_decides(request.rule_id, request.server_id):
        return ""
    return operators_remedy("", request.server_id, request.tool_name, request.config_file)


def _request_json(request: QueuedRequest, *, full: bool = False) -> JsonObject:
    return {
        "id": request.request_id,
        "state": str(request.state),
        "server": request.server_id,
        "tool": request.tool_name,
        "arguments": request.whole if full and request.whole else request.arguments,
        "arguments_cut": request.cut and not (full and request.whole),
        "arguments_digest": request.arguments_digest,
        "server_address": request.server_address,
        "config_file": request.config_file,
        "code_line": request.code_line,
        "reason": request.reason,
        "rule": request.rule_id,
        "human_only": request.human_only,
        "principal": request.principal,
        "run_id": request.run_id,
        "session_id": request.session_id,
        "asked_at": shown_time(request.asked_at),
        "expires_at": shown_time(request.expires_at),
        "approver": request.approver,
        "note": request.note,
    }


def _standing_json(standing: StandingAnswer) -> JsonObject:
    return {
        "id": standing.answer_id,
        "principal": standing.principal,
        "server": standing.server_id,
        "tool": standing.tool_name,
        "server_address": standing.server_address,
        "where": [condition.to_json() for condition in standing.where],
        "arguments_digest": standing.arguments_digest,
        "human_only": standing.human_only,
        "given_by": standing.given_by,
        "given_at": shown_time(standing.given_at),
        "expires_at": shown_time(standing.expires_at),
        "request_id": standing.request_id,
    }


def _tool(request: QueuedRequest) -> str:
    return visible(f"{request.server_id}.{shown_name(request.tool_name)}", _NAME_CHARS_MAX)


def _where(standing: StandingAnswer) -> str:
    return _covered(standing.where, same=bool(standing.arguments_digest))


def _covered(where: Sequence[Condition], *, same: bool) -> str:
    """Which further calls an answer covers."""
    if not where:
        return "with the same arguments" if same else "with any arguments"
    told = (f"{one.at} is {', '.join(str(glob) for glob in _globs(one.to_json()))}" for one in where)
    return visible("where " + " and ".join(told), _TEXT_CHARS_MAX)


def _globs(condition: JsonObject) -> list[object]:
    globs = condition.get("glob")
    return list(globs) if isinstance(globs, list) else []


def shown_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
