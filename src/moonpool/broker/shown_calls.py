"""What a person is shown of a call: the question when policy asks, the line of a plan when it is rehearsed.

SECURITY: arguments are bounded, printable and without known secrets before they leave here (`shown_arguments`); what an
answer is bound to is their digest, never what was shown. Which server it is, is said by what is reached, not by a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.broker.approval import ApprovalRequest
from moonpool.broker.phrases import printable
from moonpool.broker.redaction import Tally
from moonpool.broker.rehearsal import Shown
from moonpool.broker.shown_arguments import line_of, view_of
from moonpool.core.plans import SHOWN_BYTES_MAX, SHOWN_CHARS_MAX
from moonpool.core.policy import Verdict

if TYPE_CHECKING:
    from moonpool.broker.call_state import CallState
    from moonpool.broker.redaction import Redactor
    from moonpool.core.policy import Decision


def question_about(decision: Decision, passage: CallState, redactor: Redactor) -> ApprovalRequest:
    """The request that goes to the approval service of the call's execution."""
    spec, session, trust = passage.spec, passage.session, passage.trust
    view = view_of(spec.arguments, redactor, encoded=passage.arguments_json)
    return ApprovalRequest(
        request_id="",  # the approval service gives it
        run_id=session.run_id,
        principal=session.principal,
        server_id=spec.server_id,
        tool_name=spec.tool,
        arguments=view.text,
        arguments_digest=passage.arguments_digest,
        reason=printable(decision.reason),
        remedy=printable(decision.remedy),
        human_only=decision.verdict is Verdict.HUMAN_ONLY,
        session_id=session.session_id,
        rule_id=printable(decision.rule_id),
        tool_digest=passage.tool_digest,
        of_the_moment=decision.of_the_moment,
        plan_effect=passage.effect.number if passage.effect is not None else 0,
        cut=view.cut,
        whole=view.whole,
        server_digest=trust.digest,
        server_address=printable(trust.address),
        config_file=printable(trust.config_file),
        code_line=spec.code_line,
    )


def line_of_plan(passage: CallState, redactor: Redactor) -> Shown:
    """All of the arguments on one line; nothing when that is more than a plan may show."""
    shown, whole = "", ""
    if len(passage.arguments_json) <= SHOWN_BYTES_MAX:
        shown, whole = line_of(passage.spec.arguments, redactor, encoded=passage.arguments_json)
    fits = len(whole or shown) <= SHOWN_CHARS_MAX
    return Shown(
        arguments=shown if fits else "",
        whole=whole if fits else "",
        redacted=lambda text: redactor.text(text, Tally()),
    )
