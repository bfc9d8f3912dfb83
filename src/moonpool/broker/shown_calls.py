"""What a person is shown of a call: the question when policy asks, the line of a plan when it is rehearsed.

SECURITY: arguments are redacted, bounded and printable before they leave here; what an answer is bound to is their
digest, never what was shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.broker.approval import ApprovalRequest
from moonpool.broker.phrases import printable
from moonpool.broker.readable import ARGUMENTS_CHARS_MAX, readable_json
from moonpool.broker.redaction import Tally
from moonpool.broker.rehearsal import Shown
from moonpool.core.json import canonical_json
from moonpool.core.plans import SHOWN_BYTES_MAX, SHOWN_CHARS_MAX
from moonpool.core.policy import Verdict

if TYPE_CHECKING:
    from moonpool.broker.passage import Passage
    from moonpool.broker.redaction import Redactor
    from moonpool.core.json import JsonObject
    from moonpool.core.policy import Decision


def question_about(passage: Passage, decision: Decision, redactor: Redactor) -> ApprovalRequest:
    """The request that goes to the desk of the call's execution."""
    spec, session = passage.spec, passage.session
    return ApprovalRequest(
        request_id="",  # the desk gives it
        run_id=session.run_id,
        principal=session.principal,
        server_id=spec.server_id,
        tool_name=spec.tool,
        arguments=readable_json(_redacted(passage, redactor), ARGUMENTS_CHARS_MAX),
        arguments_digest=passage.arguments_digest,
        reason=printable(decision.reason),
        remedy=printable(decision.remedy),
        human_only=decision.verdict is Verdict.HUMAN_ONLY,
        session_id=session.session_id,
        rule_id=printable(decision.rule_id),
        tool_digest=passage.tool_digest,
        of_the_moment=decision.of_the_moment,
        plan_effect=passage.effect.number if passage.effect is not None else 0,
    )


def line_of_plan(passage: Passage, redactor: Redactor) -> Shown:
    """All of the arguments on one line; nothing when that is more than a plan may show."""
    shown = ""
    if len(passage.arguments_json) <= SHOWN_BYTES_MAX:
        shown = printable(canonical_json(_redacted(passage, redactor)).decode())
    fits = len(shown) <= SHOWN_CHARS_MAX
    return Shown(arguments=shown if fits else "", redacted=lambda text: redactor.text(text, Tally()))


def _redacted(passage: Passage, redactor: Redactor) -> JsonObject:
    return redactor.json_object(passage.spec.arguments, Tally(), encoded=passage.arguments_json)
