"""The run under an approved plan: each effect once, and no other changing call.

`PlanWatch` belongs to one execution. `take` finds the effect that a call carries out; a call without one ends the
execution. Order does not matter, because parallel calls have none. `PlannedApprovals` answers the questions of policy
about such calls out of the plan, where the person who approved it has seen the same question.

INVARIANT: between finding an effect and taking it nothing is awaited, so parallel calls never share one. After the
first call that is not in the plan no further call is sent.
SECURITY: the plan answers questions; it changes nothing that policy says. A question for a person is answered only by a
person's approval of exactly such a question, and one of the moment (budgets, what the session has read) only when the
rehearsal met the same.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from moonpool.core.calls import ApprovalState, CallErrorType
from moonpool.core.phrases import clip, counted, near_names
from moonpool.features.plans.model import EffectKind, as_planned
from moonpool.pipeline.approval import approve, checked_answer
from moonpool.pipeline.call_state import Refusal
from moonpool.pipeline.normalisation import result_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonValue
    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalRequest
    from moonpool.features.plans.model import Effect, Plan
    from moonpool.pipeline.approval import ApprovalService
    from moonpool.pipeline.call_counters import CallCounters
    from moonpool.pipeline.call_state import CallState, StageTools
    from moonpool.policy import CallFacts

_ARGUMENTS_CHARS_MAX: Final = 300
_REMEDY: Final = "make another dry run and have its plan approved"


@dataclass(slots=True, kw_only=True)
class PlanWatch:
    """One execution's use of a plan. Used on one event loop."""

    plan: Plan
    approver: str
    by_person: bool
    problem: str = ""  # the first call that is not in the plan; the caller of the pipeline then ends the execution
    _left: dict[int, Effect] = field(init=False)
    _bound: dict[int, str] = field(default_factory=dict[int, str])  # effect -> digest of the arguments that took it
    _under_way: dict[int, CallState] = field(default_factory=dict[int, "CallState"])  # effect -> the call that took it
    _results: dict[int, JsonValue] = field(default_factory=dict[int, "JsonValue"])

    def __post_init__(self) -> None:
        self._left = {effect.number: effect for effect in self.plan.effects if effect.kind is not EffectKind.DENIED}

    def begin(self, counters: CallCounters) -> None:
        """The execution begins. Its approval is the plan's."""
        if self.plan.calls:
            counters.settle(ApprovalState.APPROVED)

    def take(self, call: CallState, tools: StageTools) -> None:
        """Find and take the effect that this call carries out. Raises Refusal if there is none, and for every later
        call.
        """
        del tools
        if call.stopped_early:
            return  # policy denies it, so it carries out nothing
        self._check_kept()
        call.effect = effect = self._effect_of(call)
        if effect is not None:
            del self._left[effect.number]
            self._bound[effect.number] = call.arguments_digest
            self._under_way[effect.number] = call
        elif not call.only_reads:
            self.problem = f"{call.name} is not in the approved plan {self.plan.plan_id}: {self._nearest(call)}"
            self._check_kept()

    def before_sending(self, call: CallState) -> None:
        """Raises Refusal once a call was not in the plan."""
        del call
        self._check_kept()

    def _check_kept(self) -> None:
        if self.problem:
            raise Refusal(CallErrorType.PLAN_EXCEEDED, f"{self.problem}; nothing was sent. {_REMEDY.capitalize()}")

    def answers(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """The plan's answer to a question of policy, or None when its approver did not see that question."""
        effect = next((one for one in self.plan.calls if one.number == request.plan_effect), None)
        if effect is None or (request.of_the_moment and not effect.of_the_moment):
            return None
        if request.human_only and not (self.by_person and effect.verdict == "human_only"):
            return None
        bound = replace(request, arguments_digest=self._bound[effect.number])
        return approve(bound, f"plan:{self.plan.plan_id} by {self.approver}")

    def _results_so_far(self) -> Mapping[int, JsonValue]:
        """The results of planned calls, which may fill placeholders in later ones."""
        for number, call in list(self._under_way.items()):
            if (result := call.result) is not None:
                del self._under_way[number]
                if result.error is None:
                    self._results[number] = result_data(result.raw or {}, result.data_from)
        return self._results

    def _effect_of(self, call: CallState) -> Effect | None:
        wanted = EffectKind.READ if call.only_reads else EffectKind.CALL
        for effect in self._left.values():
            same_tool = (effect.server_id, effect.tool_name) == (call.spec.server_id, call.spec.tool)
            if not same_tool or effect.kind is not wanted or effect.tool_digest != call.tool_digest:
                continue
            if not effect.openings:
                if effect.arguments_digest == call.arguments_digest:
                    return effect
            elif as_planned(call.spec.arguments, effect, self._results_so_far()):
                return effect
        return None

    def _nearest(self, call: CallState) -> str:
        """Describe the most similar call of the plan."""
        name = (call.spec.server_id, call.spec.tool)
        same = [one for one in self.plan.calls if (one.server_id, one.tool_name) == name]
        left = [one for one in same if one.number in self._left]
        if any(one.tool_digest != call.tool_digest for one in left):
            return "its server has changed the tool since the dry run"
        if left:
            shown = clip(left[0].arguments, _ARGUMENTS_CHARS_MAX)
            return f"the nearest is call {left[0].number} of the plan, with other arguments: {shown}"
        if same:
            return f"the plan has {counted(len(same), 'call')} of it, and all were made"
        names = list(dict.fromkeys(one.name for one in self.plan.calls))
        if not names:
            return "the plan has no calls"
        near = near_names([call.name], names)
        return f"the nearest is {near[0]}" if near else f"the plan has {clip(', '.join(names), _ARGUMENTS_CHARS_MAX)}"


@dataclass(frozen=True, slots=True)
class PlannedApprovals:
    """An approval service that answers from the approved plan what it can, and asks only the rest."""

    approvals: ApprovalService
    watch: PlanWatch

    async def settle(self, request: ApprovalRequest, facts: CallFacts | None = None) -> ApprovalAnswer:
        named = replace(request, request_id=uuid.uuid4().hex)
        answer = self.watch.answers(named)
        if answer is not None:
            return checked_answer(named, answer)
        return await self.approvals.settle(request, facts)
