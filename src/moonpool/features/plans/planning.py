"""From a dry run to its plan, and the words for it: one line per effect, one question about all of them, short JSON.

What keeps and answers plans is `moonpool.features.plans.service`; the calls are listed by `moonpool.pipeline.dry_run`.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from moonpool.core.lookalikes import shown_name
from moonpool.core.phrases import counted, on_one_line
from moonpool.features.approvals.model import PLAN, ApprovalRequest, server_place
from moonpool.features.plans.model import EffectKind, Plan, PlannedServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.envelope import Envelope, ExecutionError
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.features.plans.model import Effect
    from moonpool.pipeline.call_state import CallContext
    from moonpool.pipeline.dry_run import Rehearsal

WARNING: Final = "a dry run: no call of the plan was made, and the result may depend on placeholders"
_SHOWN_EFFECTS_MAX: Final = 50
_SHOWN_ARGUMENTS_CHARS_MAX: Final = 200


def plan_of(rehearsal: Rehearsal, context: CallContext, *, policy_digest: str, error: ExecutionError | None) -> Plan:
    """What `rehearsal` found in the execution of `context`; `error` is how it ended."""
    identity = context.identity
    problem = rehearsal.problem
    if not problem and error is not None:
        problem = f"the dry run failed ({error.type}), so the list may be incomplete; declare placeholders that fit"
    return Plan(
        plan_id=new_plan_id(),
        run_id=identity.run_id,
        principal=identity.principal,
        session_id=identity.session_id,
        language=identity.language,
        code_digest=identity.code_digest,
        manifest_digest=context.manifest().digest,
        policy_digest=policy_digest,
        effects=tuple(rehearsal.effects),
        made_at=0.0,
        expires_at=0.0,
        servers=tuple(
            PlannedServer(server_id=name, digest=trust.digest, address=trust.address, config_file=trust.config_file)
            for name, trust in context.grant.trust.items()
            if any(effect.server_id == name for effect in rehearsal.effects)
        ),
        problem=problem,
    )


def plan_metrics(plan: Plan | None) -> dict[str, JsonValue]:
    """What the envelope's metrics say of a dry run."""
    if plan is None:
        return {}
    return {"dry_run": True, "plan_id": plan.plan_id, "planned_calls": len(plan.calls)}


def new_plan_id() -> str:
    return f"plan_{uuid.uuid4().hex}"


def plan_question(plan: Plan, run_id: str) -> ApprovalRequest:
    """The one question about a whole plan. The answer is bound to the plan's digest."""
    return ApprovalRequest(
        request_id="",
        run_id=run_id or plan.run_id,
        principal=plan.principal,
        server_id="moonpool",
        tool_name=PLAN,
        arguments="\n".join(plan_lines(plan)),
        arguments_digest=plan.digest,
        reason=f"the dry run made {plan.plan_id}; the code wants to make {counted(len(plan.calls), 'call')}",
        remedy=f"approve the plan: moonpool plans approve {plan.plan_id}",
        human_only=plan.human_only,
        session_id=plan.session_id,
        of_the_moment=True,
        cut=plan.cut,
        whole="\n".join(plan_lines(plan, whole=True)) if plan.cut else "",
    )


def plan_lines(plan: Plan, *, whole: bool = False) -> list[str]:
    """Which servers they are, and one line per effect with its arguments; `whole`: all but known secrets."""
    places = [on_one_line(server_place(one.server_id, one.address, one.config_file)) for one in plan.servers]
    return [*(place for place in places if place), *(effect_line(effect, whole=whole) for effect in plan.effects)]


def effect_line(effect: Effect, *, whole: bool = False) -> str:
    """`1. github.create_issue {"title": "x"} (line 3; may destroy; ask: by default)`.

    SECURITY: names of tools and of what they return are a server's, member names the code's: none of them may begin a
    line, or it could pass for another effect.
    """
    remarks = [f"line {effect.code_line}"] if effect.code_line else []
    if effect.kind is not EffectKind.CALL:
        remarks.append(_KINDS[effect.kind])
    if effect.destructive and effect.kind is EffectKind.CALL:
        remarks.append("may destroy")
    if effect.kind is not EffectKind.READ:
        remarks.append(f"{effect.verdict}: {effect.reason}")
    for opening in effect.openings:
        where = "in" if opening.start >= 0 else "at"
        remarks.append(f"{where} {opening.at}: what call {opening.number} returns at {opening.path or 'its text'}")
    if effect.derived:
        remarks.append(
            f"at {', '.join(effect.derived[:5])}: made from a placeholder in a way that cannot be followed; "
            "the real run will stop here"
        )
    arguments = (effect.whole if whole else "") or effect.arguments
    name = f"{effect.server_id}.{shown_name(effect.tool_name)}"
    return on_one_line(f"{effect.number}. {name} {arguments} ({'; '.join(remarks)})")


_KINDS: Final = {
    EffectKind.READ: "only reads; not made now, because its arguments rest on a placeholder",
    EffectKind.DENIED: "DENIED by policy, in the real run too",
}


def plan_json(plan: Plan, redacted: Callable[[str], str]) -> JsonObject:
    """A plan in an answer to a model or program: short, and told when it is not all of it.

    SECURITY: who approves sees more of what looks like a secret than a model does: `redacted` takes all of it out.
    """
    shown = [effect_json(effect, redacted) for effect in plan.effects[:_SHOWN_EFFECTS_MAX]]
    more = len(plan.effects) - len(shown)
    return {
        "plan_id": plan.plan_id,
        "warning": WARNING,
        "effects": [*shown],
        **({"more_effects": more} if more else {}),
        **({"problem": plan.problem} if plan.problem else {}),
    }


def effect_json(effect: Effect, redacted: Callable[[str], str]) -> JsonObject:
    shown = redacted(effect.whole or effect.arguments)
    cut = len(shown) > _SHOWN_ARGUMENTS_CHARS_MAX
    return {
        "n": effect.number,
        "call": effect.name,
        "arguments": f"{shown[:_SHOWN_ARGUMENTS_CHARS_MAX]} …" if cut else shown,
        "policy": effect.verdict,
        **({"kind": str(effect.kind)} if effect.kind is not EffectKind.CALL else {}),
        **({"depends_on": [*_sources(effect)]} if effect.openings else {}),
        **({"cannot_follow": list(effect.derived)} if effect.derived else {}),
    }


def _sources(effect: Effect) -> list[JsonValue]:
    return [*sorted({one.number for one in effect.openings})]


async def plan_first(
    rehearse: Callable[[], Awaitable[Envelope]],
    run: Callable[[str], Awaitable[Envelope]],
    say: Callable[[str], None],
) -> Envelope:
    """Rehearse, then run under the plan; the real run asks for the plan's approval. A failed rehearsal is the answer.

    `say` tells people how it goes on.
    """
    rehearsal = await rehearse()
    plan = rehearsal.extras.get("plan")
    if not isinstance(plan, dict) or not isinstance(plan_id := plan.get("plan_id"), str) or plan.get("problem"):
        return rehearsal
    say(f"the dry run made {plan_id}: {_planned_calls(rehearsal)} to approve")
    return await run(plan_id)


def report_lines(envelope: Envelope) -> list[str]:
    """What people are told of a dry run beside its envelope."""
    plan = envelope.extras.get("plan")
    if not isinstance(plan, dict):
        return []
    told = [WARNING]
    if problem := plan.get("problem"):
        return [*told, f"its plan cannot be approved: {problem}"]
    return [*told, f"the plan has {_planned_calls(envelope)}: moonpool plans show {plan['plan_id']}"]


def _planned_calls(envelope: Envelope) -> str:
    count = envelope.metrics.get("planned_calls")
    return counted(count if isinstance(count, int) else 0, "call")
