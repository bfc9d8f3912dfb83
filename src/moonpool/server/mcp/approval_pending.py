"""The error that a model reads while its call waits for an answer from the queue of approvals.

Clients time out on long requests, so the request is answered early; the call keeps waiting (`engine.pending_calls`),
and repeating the request resumes the wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.lookalikes import shown_name
from moonpool.core.phrases import clip, on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.features.approvals.model import ApprovalRequest

_SHOWN_MAX: Final = 5
_NAME_CHARS_MAX: Final = 200
_ID_CHARS: Final = 8


class ApprovalPendingError(MoonpoolError):
    """The code waits for a person's answer in the queue of approvals. Repeating the request resumes the wait.

    SECURITY: a model reads the message, so it holds neither arguments nor a command to approve the request.
    """

    code = "approval_pending"
    fault = Fault.CALLER
    retryable = True

    def __init__(self, waiting: Sequence[ApprovalRequest], tool: str) -> None:
        """`tool` is the one whose call waits."""
        named = [f"{_name(one)} (request {one.request_id[:_ID_CHARS]})" for one in waiting[:_SHOWN_MAX]]
        more = f" and {len(waiting) - _SHOWN_MAX} more" if len(waiting) > _SHOWN_MAX else ""
        what = f"{', '.join(named)}{more}" if named else "a tool call"
        super().__init__(
            f"the code waits until a person approves {what}; tell your user, who answers with `moonpool approvals` on "
            f"this machine, then call {tool} again with exactly the same arguments: it continues where it waits "
            "and is not run twice"
        )


def _name(request: ApprovalRequest) -> str:
    if request.is_plan:
        return "the plan"
    return on_one_line(clip(f"{request.server_id}.{shown_name(request.tool_name)}", _NAME_CHARS_MAX))
