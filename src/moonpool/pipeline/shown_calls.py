"""What a person is shown of a call: the question when policy asks, the line of a plan when it is rehearsed.

SECURITY: arguments are bounded, printable and without known secrets before they leave here (`shown_arguments`); what an
answer is bound to is their digest, never what was shown. Which server it is, is said by what is reached, not by a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.to_thread

from moonpool.core.phrases import printable
from moonpool.features.approvals.model import ApprovalRequest
from moonpool.features.plans.model import SHOWN_BYTES_MAX, SHOWN_CHARS_MAX
from moonpool.pipeline.shown_arguments import line_of, view_of
from moonpool.policy import Verdict
from moonpool.redaction.redactor import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.pipeline.call_state import CallState
    from moonpool.policy import Decision
    from moonpool.redaction.redactor import Redactor


_SHOWN_ON_LOOP_BYTES_MAX: Final = 2000
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a person may see of a call's arguments."""

    arguments: str  # without secrets; empty when they are too long
    whole: str  # all of it but for known secrets, where `arguments` is not
    redacted: Callable[[str], str]  # the same for any other text of the call's


async def shown(call: CallState, show: Callable[[CallState, Redactor], _T], redactor: Redactor) -> _T:
    """What people are shown of a call; of a large one in a worker thread, because it may take 0.1 s."""
    if len(call.arguments_json) <= _SHOWN_ON_LOOP_BYTES_MAX:
        return show(call, redactor)
    return await anyio.to_thread.run_sync(show, call, redactor)


def question_about(decision: Decision, call: CallState, redactor: Redactor) -> ApprovalRequest:
    """The request that goes to the approval service of the call's execution."""
    spec, identity, trust = call.spec, call.context.identity, call.trust
    view = view_of(spec.arguments, redactor, encoded=call.arguments_json)
    return ApprovalRequest(
        request_id="",  # the approval service gives it
        run_id=identity.run_id,
        principal=identity.principal,
        server_id=spec.server_id,
        tool_name=spec.tool,
        arguments=view.text,
        arguments_digest=call.arguments_digest,
        reason=printable(decision.reason),
        remedy=printable(decision.remedy),
        human_only=decision.verdict is Verdict.HUMAN_ONLY,
        session_id=identity.session_id,
        rule_id=printable(decision.rule_id),
        tool_digest=call.tool_digest,
        of_the_moment=decision.of_the_moment,
        plan_effect=call.effect.number if call.effect is not None else 0,
        cut=view.cut,
        whole=view.whole,
        server_digest=trust.digest,
        server_address=printable(trust.address),
        config_file=printable(trust.config_file),
        code_line=spec.code_line,
        by_client=call.context.client is not None,
    )


def line_of_plan(call: CallState, redactor: Redactor) -> Shown:
    """All of the arguments on one line; nothing when that is more than a plan may show."""
    line, whole = "", ""
    if len(call.arguments_json) <= SHOWN_BYTES_MAX:
        line, whole = line_of(call.spec.arguments, redactor, encoded=call.arguments_json)
    fits = len(whole or line) <= SHOWN_CHARS_MAX
    return Shown(
        arguments=line if fits else "",
        whole=whole if fits else "",
        redacted=lambda text: redactor.text(text, Tally()),
    )
