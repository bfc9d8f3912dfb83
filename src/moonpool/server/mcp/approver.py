"""Approvals through MCP elicitation: the client asks its user (X-06).

A question goes to the client whose request started the execution, if that client declared form elicitation: as a
request from the server in 2025-06-18 and 2025-11-25, as the answer `input_required` in 2026-07-28. Otherwise the
fallback approver is asked: the queue of approvals, which works with every client. See `client_requests`.

SECURITY: only the action `accept` together with an explicit `allow: true` is an approval. The text shown was redacted
and bounded before it got here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from moonpool.core.lookalikes import shown_name
from moonpool.core.phrases import clip, on_one_line
from moonpool.pipeline.approval import DenyApprover, approve, reject
from moonpool.pipeline.readable_json import ARGUMENTS_CHARS_MAX
from moonpool.pipeline.request_responder import AnswererGoneError
from moonpool.server.mcp.client_requests import ELICIT, Bindings

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject
    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalRequest
    from moonpool.pipeline.approval import Approver

NAME: Final = "mcp:elicitation"
FORM: Final[JsonObject] = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": False}},
    "required": ["allow"],
}
_NAME_CHARS_MAX: Final = 300
_PLAN_CHARS_MAX: Final = 16_000
_NOT_ALL: Final = (
    "Not all of it is shown. To read all of it, decline, start the server with --approve queue, and use "
    "`moonpool approvals show --full`."
)
_NO_FORMS: Final = "this MCP client cannot ask its user (no form elicitation)"
_UNSEEN: Final = "application:mcp"  # nobody was asked, so a plan keeps waiting


class ElicitingApprover:
    """An `Approver` for `bootstrap.open_tenant`; the MCP server tells its bindings which client can be asked about
    which execution.
    """

    together: ClassVar[bool] = True  # one client that does not answer must not hold up the questions to others

    def __init__(self, beside: Approver | None = None) -> None:
        """`beside` answers for clients that cannot ask their user; without it their calls are refused."""
        self._beside: Approver = beside or DenyApprover(why=_NO_FORMS)
        self.bindings = Bindings()

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        asker = self.bindings.asker_of(request.run_id)
        if asker is None and request.is_plan:  # asked about by the call itself, before its execution begins
            asker = self.bindings.asker_of_this_task()
        if asker is None or not asker.can(ELICIT, "form"):
            return await self._beside.ask(request)
        if request.is_plan and len(request.arguments) > _PLAN_CHARS_MAX:
            return reject(request, _UNSEEN, f"the plan is too long to be shown by this client; {request.remedy}")
        if request.is_registration and request.cut:  # SECURITY: what is left out may be the command that runs
            return reject(
                request,
                _UNSEEN,
                f"not all of its parameters can be shown; write no secrets into them, or {request.remedy}",
            )
        params: JsonObject = {"mode": "form", "message": _question(request), "requestedSchema": FORM}
        self.bindings.at_client.add(request.request_id)
        try:
            given = await asker.ask(ELICIT, params)
        except AnswererGoneError as gone:
            return reject(request, _UNSEEN if request.is_plan else NAME, str(gone))
        finally:
            self.bindings.at_client.discard(request.request_id)
        action, content = given.get("action"), given.get("content")
        if request.is_plan and action not in {"accept", "decline"}:
            return reject(request, _UNSEEN, "the user did not answer")
        if action == "accept" and isinstance(content, dict) and content.get("allow") is True:
            return approve(request, NAME)
        how = (
            "cancelled the question"
            if action == "cancel"
            else "did not allow it"
            if request.is_plan
            else "did not allow the call"
        )
        return reject(request, NAME, f"the user {how}")


def _question(request: ApprovalRequest) -> str:
    """SECURITY: the text is in a fence, for clients that show Markdown: without it `<!--` in one argument would hide
    the next.

    No untrusted string begins a line, so none can end the fence.
    """
    return f"```\n{_question_text(request)}\n```"


def _question_text(request: ApprovalRequest) -> str:
    more = f"\n{_NOT_ALL}" if request.cut else ""
    if request.is_plan:
        return f"Approve the whole plan? {on_one_line(request.reason)}.\n{request.arguments}{more}"
    if request.is_registration:
        name = on_one_line(clip(request.server_id, _NAME_CHARS_MAX))
        return (
            f"The agent wants to register the MCP server {name}: {on_one_line(request.reason)}.\n"
            f"Parameters: {clip(request.arguments, ARGUMENTS_CHARS_MAX)}"
        )
    name = on_one_line(clip(f"{request.server_id}.{shown_name(request.tool_name)}", _NAME_CHARS_MAX))
    line = f" in line {request.code_line}" if request.code_line else ""
    place = f"Server: {on_one_line(request.place)}.\n" if request.place else ""
    return (
        f"{'The client' if request.by_client else 'Code'} wants to call {name}{line}.\n{place}"
        f"Arguments: {clip(request.arguments, ARGUMENTS_CHARS_MAX)}\n"
        f"Asked because {on_one_line(request.reason)}.{more}\n"
        f"To allow it without a question: {on_one_line(request.operators_remedy)}"
    )
