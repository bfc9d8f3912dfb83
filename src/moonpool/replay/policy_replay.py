"""What if: every recorded call decided again under another policy file, with the facts as they were.

The file takes the place of the one that was in force; what the `moonpool` blocks of the configuration said is part of
the recording and stays. Labels and budgets are worked out anew from the recorded calls, in the order of then, from the
first execution of the sandbox on: what the other policy denies is not spent and brings in nothing. Usage of a key
outside this session is not known. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.calls import CallError, CallErrorType
from moonpool.features.recordings.model import RecordedCall, RecordingError
from moonpool.pipeline.budgets import Ledger, Reservation, SessionMemory, result_refused, usage_of
from moonpool.policy import CallFacts, Label, Policy, Rule, Scope, Verdict, configuration_layer, decide
from moonpool.replay.report import DecisionChange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition
    from moonpool.features.recordings.model import RecordedReply, Recording, SharedPart
    from moonpool.policy import Decision, Layer
    from moonpool.replay.source import Recorded, ReplaySource

_NOT_ASKED: Final = frozenset(
    {CallErrorType.POLICY_DENIED, CallErrorType.APPROVAL_REJECTED, CallErrorType.APPROVAL_EXPIRED}
)


@dataclass(slots=True, kw_only=True)
class WhatIf:
    """What another policy decides. `denied`: by run id and place, the errors that the code gets instead."""

    decisions: list[DecisionChange] = field(default_factory=list[DecisionChange])
    denied: dict[str, dict[int, CallError]] = field(default_factory=dict[str, dict[int, CallError]])


@dataclass(slots=True)
class _Clock:
    """The time of then."""

    now: float = 0.0


def decide_again(source: ReplaySource, file: Layer) -> WhatIf:
    """Decide the calls of all executions of `source`. Raises RecordingError."""
    found = WhatIf()
    clock, memory = _Clock(), SessionMemory()
    memory.ledger.now = lambda: clock.now
    key = Ledger(now=lambda: clock.now)
    for one in (*source.before, source.target):
        policy = Policy(layers=(file, _configuration(one.recording.shared)))
        _Judge(one, policy, clock, memory, key, found).judge()
    return found


def _configuration(shared: SharedPart) -> Layer:
    try:
        rules = tuple(
            Rule(rule_id=rule_id, verdict=Verdict(verdict), server=server, tool=tool)
            for rule_id, verdict, server, tool in shared.rules
        )
        labels = tuple(Label(server=server, returns=returns, does=does) for server, returns, does in shared.labels)
        return configuration_layer(rules, labels)
    except ValueError as error:
        raise RecordingError(f"the recording is damaged: {error}") from None


class _Judge:
    """Decides the calls of one execution."""

    def __init__(
        self, recorded: Recorded, policy: Policy, clock: _Clock, memory: SessionMemory, key: Ledger, found: WhatIf
    ) -> None:
        self._recorded, self._policy, self._clock, self._memory = recorded, policy, clock, memory
        self._found = found
        self._recording: Recording = recorded.recording
        self._began = clock.now
        own = Ledger(now=lambda: clock.now)
        self._ledgers: Mapping[Scope, Ledger] = {
            Scope.EXECUTION: own,
            Scope.SESSION: memory.ledger,
            Scope.KEY: key,
        }
        self._denied = found.denied.setdefault(self._recording.header.run_id, {})
        self._reserved: dict[int, Reservation] = {}
        self._places: dict[int, int] = {}  # of decisions

    def judge(self) -> None:
        clock = lambda: self._clock.now - self._began  # noqa: E731  one object to start and stop by
        for ledger in self._ledgers.values():
            ledger.start(clock)
        calls = {call.seq: call for call in self._recording.calls}
        events: list[tuple[float, int, RecordedCall | RecordedReply]] = [
            *((call.at_s, 0, call) for call in calls.values()),
            *((reply.at_s, 1, reply) for reply in self._recording.replies),
        ]
        for at_s, _, event in sorted(events, key=lambda one: (one[0], one[1])):
            self._clock.now = self._began + max(at_s, 0.0)
            if isinstance(event, RecordedCall):
                self._call(event)
            else:
                self._reply(calls[event.seq], event)
        for ledger in self._ledgers.values():
            ledger.stop(clock)

    def _call(self, call: RecordedCall) -> None:
        outcome = self._recorded.outcomes.get(call.call_id, {})
        before, rule = str(outcome.get("verdict", "")), str(outcome.get("rule_id", ""))
        tool = self._recorded.manifest.find(call.server_id, call.tool_name)
        held = (call.server_id, call.tool_name) in self._recorded.manifest.held
        if tool is None or held or (outcome and not before):
            self._note(call, before, rule, None, note="it was refused before policy was asked")
            return
        facts = self._facts(call, tool)
        decision = decide(self._policy, facts)
        if decision.verdict is Verdict.DENY:
            passing = decision.room_in_s is not None
            kind = CallErrorType.RATE_LIMIT if passing else CallErrorType.POLICY_DENIED
            self._denied[call.seq] = CallError(type=kind, message=decision.reason, retryable=passing)
        elif self._policy.budgets:
            self._reserved[call.seq] = Reservation(
                ledgers=self._ledgers,
                tool=facts.name,
                argument_bytes=facts.argument_bytes,
                cost=self._policy.cost(tool),
            )
        self._note(call, before, rule, decision, note=self._remark(call, outcome, decision))

    def _remark(self, call: RecordedCall, outcome: JsonObject, decision: Decision) -> str:
        refused = outcome.get("error_type") in _NOT_ASKED
        if decision.verdict is Verdict.DENY:
            note = ""
        elif refused:
            note = "it was not made then, so no result is recorded: the code gets the recorded refusal"
        elif decision.verdict is not Verdict.ALLOW and outcome.get("approval") == "NOT_REQUIRED":
            note = "a person would be asked; the code gets the recorded result, as if it were approved"
        else:
            note = ""
        if call.redacted and any(rule.when for layer in self._policy.layers for rule in layer.rules):
            note += f"{'; ' if note else ''}decided on redacted arguments"
        return note

    def _reply(self, call: RecordedCall, reply: RecordedReply) -> None:
        if call.seq in self._denied:
            return
        outcome = self._recorded.outcomes.get(call.call_id, {})
        reserved = self._reserved.pop(call.seq, None)
        if outcome.get("error_type") in _NOT_ASKED:
            if reserved is not None:
                reserved.give_back()
            return
        if reserved is not None:
            reserved.keep()
        tool = self._recorded.manifest.find(call.server_id, call.tool_name)
        if tool is None or not reply.result_digest:
            return
        size = outcome.get("result_bytes")
        why = result_refused(self._ledgers, self._policy, size) if isinstance(size, int) else ""
        if why:
            message = f"the result of {call.server_id}.{call.tool_name} is {size} bytes and {why}; the call was made"
            self._denied[call.seq] = CallError(type=CallErrorType.OUTPUT_TOO_LARGE, message=message)
            return
        self._memory.taken_in |= self._policy.returns(tool)

    def _facts(self, call: RecordedCall, tool: ToolDefinition) -> CallFacts:
        header = self._recording.header
        name = f"{call.server_id}.{call.tool_name}"
        return CallFacts(
            tool=tool,
            arguments=json.loads(call.arguments),
            trusted=call.server_id in self._recording.shared.trusted,
            principal=header.principal,
            language=header.language,
            taken_in=self._memory.taken_in,
            usage=usage_of(self._ledgers, name) if self._policy.budgets else {},
            argument_bytes=len(call.arguments),
        )

    def _note(self, call: RecordedCall, before: str, rule: str, decision: Decision | None, *, note: str) -> None:
        self._found.decisions.append(
            DecisionChange(
                run_id=self._recording.header.run_id,
                number=call.seq,
                server_id=call.server_id,
                tool_name=call.tool_name,
                before=before,
                before_rule=rule,
                after=before if decision is None else str(decision.verdict),
                after_rule=rule if decision is None else decision.rule_id,
                reason="" if decision is None else decision.reason,
                note=note,
            )
        )
