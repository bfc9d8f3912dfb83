"""How requests for approval and approval grants are shown to people and programs.

SECURITY: names, arguments and reasons come from code, servers and models. In tables and frames they reach a terminal
without control characters, and none of their lines can pass for one of ours; JSON is ASCII.
"""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from moonpool.core.lookalikes import shown_name
from moonpool.features.approvals.model import WHOLE_CHARS_MAX, Answerer
from moonpool.pipeline.readable_json import in_one_line
from moonpool.policy import entry_decides, entry_remedy, operators_remedy
from moonpool.terminal.approver import hanging, visible
from moonpool.terminal.device import ask_at, open_terminal, user_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.core.json import JsonObject
    from moonpool.features.approvals.model import ApprovalGrant, ApprovalRequest, QueuedRequest
    from moonpool.policy import Condition

_ID_CHARS: Final = 12
_CELL_CHARS_MAX: Final = 60
_NAME_CHARS_MAX: Final = 300
_TEXT_CHARS_MAX: Final = 8000
_YES: Final = frozenset({"y", "yes"})


def confirmed(shown: str, question: str, by: Answerer, *, as_json: bool) -> bool:
    """Show what is about to be approved and ask for confirmation at the terminal.

    A program is not asked; the text is printed with its output, unless that is JSON.
    """
    if not by.person:
        if not as_json:
            click.echo(shown)
        return True
    terminal = open_terminal()
    if terminal is None:  # moved to the background meanwhile
        return False
    try:
        return ask_at(terminal, f"{shown}\n{question}").lower() in _YES
    finally:
        os.close(terminal)


def answerer() -> Answerer:
    """The current user; counts as a person only if there is a terminal that showed the question."""
    terminal = open_terminal()
    if terminal is None:
        return Answerer(name=f"command:{user_name()}", person=False)
    os.close(terminal)
    return Answerer(name=f"terminal:{user_name()}", person=True)


def shown_left(expires_at: float) -> str:
    """The remaining time, in the largest unit of which at least two remain."""
    left_s = max(0.0, expires_at - time.time())
    for seconds, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if left_s >= 2 * seconds:
            return f"{left_s // seconds:.0f} {unit}"
    return f"{left_s:.0f} s"


def request_cells(queued: QueuedRequest) -> tuple[str, ...]:
    request, waits = queued.request, queued.state == "waiting"
    arguments = visible(in_one_line(request.arguments), _CELL_CHARS_MAX)
    state = f"{queued.state} (a person)" if request.human_only and waits else str(queued.state)
    left = shown_left(queued.expires_at) if waits else ""
    return (request.request_id[:_ID_CHARS], state, tool_of(request), arguments, request.principal, left)


def rule_cells(grant: ApprovalGrant) -> tuple[str, ...]:
    tool = visible(f"{grant.server_id}.{shown_name(grant.tool_name)}", _NAME_CHARS_MAX)
    until = shown_time(grant.expires_at)
    server = visible(grant.server_address, _CELL_CHARS_MAX)
    return (grant.answer_id, tool, server, further_calls(grant), grant.principal, until, grant.given_by)


def request_frame(queued: QueuedRequest, *, full: bool) -> str:
    """SECURITY: untrusted text is indented by `│ `, as at the terminal prompt."""
    request = queued.request
    width = max(20, shutil.get_terminal_size().columns)
    arguments = request.whole if full and request.whole else request.arguments
    kind = "; policy wants a person to answer" if request.human_only else ""
    answered = f" by {visible(queued.approver, _NAME_CHARS_MAX)}" if queued.approver else ""
    shown = {
        "tool": tool_of(request),
        "server": visible(request.place, _TEXT_CHARS_MAX),
        "line of the code": str(request.code_line or ""),
        "arguments": "" if request.is_plan else visible(in_one_line(arguments), WHOLE_CHARS_MAX),
        "because": visible(request.reason, _TEXT_CHARS_MAX),
        "rule": visible(request.rule_id, _NAME_CHARS_MAX),
        "asked by": visible(request.principal, _NAME_CHARS_MAX),
        "execution": visible(request.run_id, _NAME_CHARS_MAX),
        "session": visible(request.session_id, _NAME_CHARS_MAX),
        "digest": visible(request.arguments_digest, _NAME_CHARS_MAX),
        "note": visible(queued.note, _TEXT_CHARS_MAX),
        "to allow it for good": visible(_for_good(request), _TEXT_CHARS_MAX),
    }
    told = [f"{name}: {text}" for name, text in shown.items() if text]
    if request.is_plan:
        told += [visible(line, WHOLE_CHARS_MAX) for line in arguments.split("\n")]
    lines = [line for text in told for line in hanging(text, width)]
    head = f"{request.request_id}: {queued.state}{answered}{kind}; until {shown_time(queued.expires_at)}"
    more = "not all of it is shown; --full shows the rest" if request.whole and not full else ""
    return "\n".join([head, "┌─ request", *(f"│ {line}" for line in lines), "└─", *([more] if more else [])])


def _for_good(request: ApprovalRequest) -> str:
    """The command for a permanent permission, if the server's entry decides and not a policy file."""
    if request.is_plan or not entry_decides(request.rule_id, request.server_id):
        return ""
    remedy = entry_remedy(request.rule_id, request.server_id, request.tool_name)
    return operators_remedy(remedy, request.server_id, request.tool_name, request.config_file)


def request_json(queued: QueuedRequest, *, full: bool = False) -> JsonObject:
    request = queued.request
    return {
        "id": request.request_id,
        "state": str(queued.state),
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
        "asked_at": shown_time(queued.asked_at),
        "expires_at": shown_time(queued.expires_at),
        "approver": queued.approver,
        "note": queued.note,
    }


def grant_json(grant: ApprovalGrant) -> JsonObject:
    return {
        "id": grant.answer_id,
        "principal": grant.principal,
        "server": grant.server_id,
        "tool": grant.tool_name,
        "server_address": grant.server_address,
        "where": [condition.to_json() for condition in grant.where],
        "arguments_digest": grant.arguments_digest,
        "human_only": grant.human_only,
        "given_by": grant.given_by,
        "given_at": shown_time(grant.given_at),
        "expires_at": shown_time(grant.expires_at),
        "request_id": grant.request_id,
    }


def tool_of(request: ApprovalRequest) -> str:
    return visible(f"{request.server_id}.{shown_name(request.tool_name)}", _NAME_CHARS_MAX)


def further_calls(grant: ApprovalGrant) -> str:
    return covered(grant.where, same=bool(grant.arguments_digest))


def covered(where: Sequence[Condition], *, same: bool) -> str:
    """Which further calls a grant covers."""
    if not where:
        return "with the same arguments" if same else "with any arguments"
    told = (f"{one.at} is {', '.join(str(glob) for glob in _globs(one.to_json()))}" for one in where)
    return visible("where " + " and ".join(told), _TEXT_CHARS_MAX)


def _globs(condition: JsonObject) -> list[object]:
    globs = condition.get("glob")
    return list(globs) if isinstance(globs, list) else []


def shown_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
