"""The pipeline of a replay: calls are answered from a recording, and nothing else is asked.

A call is found by what it is: server, tool and the digest of its arguments, and among equal calls by which of them it
is. So calls that run in parallel find their results in whatever order they are made. Replies are given in the order in
which they came then, because the code may depend on it.

SECURITY: no server, credential, approver or budget is known here. What is not in the recording is not done: the code
gets a typed error, and the replay ends.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, get_args

from moonpool.core.calls import CallError, CallErrorType, DataFrom, ToolCallOutcome
from moonpool.core.json import digest_bytes
from moonpool.features.recordings.model import RecordingError
from moonpool.features.recordings.recorder import canonical_arguments
from moonpool.replay.report import DIFFERENCES_MAX, CallShown, Difference, Divergence, clipped
from moonpool.replay.source import read_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from moonpool.core.calls import ToolCallSpec
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.features.recordings.model import RecordedCall, Recording
    from moonpool.pipeline.call_state import CallContext

SKIP_AFTER_S: Final = 0.5
"""How long a reply waits for one that came before it then, when its call is not made this time."""
_DATA_FROM: Final[tuple[DataFrom, ...]] = get_args(DataFrom)


class ReplayPipeline:
    """Answers the calls of one execution. `stop` ends it; `denied` has errors for calls that another policy refuses."""

    def __init__(
        self,
        recording: Recording,
        *,
        stop: Callable[[], None],
        shown: Callable[[JsonObject], JsonValue],
        denied: Mapping[int, CallError],
    ) -> None:
        self._recording, self._stop, self._shown, self._denied = recording, stop, shown, denied
        self._left: dict[tuple[str, str, str], deque[RecordedCall]] = defaultdict(deque)
        for call in sorted(recording.calls, key=lambda one: one.seq):
            self._left[call.server_id, call.tool_name, call.arguments_digest].append(call)
        self._replies = {reply.seq: reply for reply in recording.replies}
        self._places = deque(sorted(reply.place for reply in recording.replies))
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._skip: asyncio.TimerHandle | None = None
        self._made = 0
        self.served = self.refused = 0
        self.divergence: Divergence | None = None
        self.record_ended = False

    @property
    def not_made(self) -> Iterator[CallShown]:
        """Recorded calls that nobody asked for."""
        left = (call for calls in self._left.values() for call in calls)
        return (shown_call(call) for call in sorted(left, key=lambda one: one.seq))

    async def run(self, spec: ToolCallSpec, context: CallContext) -> ToolCallOutcome:
        """One call, from the record."""
        del context
        self._made += 1
        if self.divergence is not None:
            return self._diverged()
        digest = digest_bytes(canonical_arguments(spec))
        calls = self._left.get((spec.server_id, spec.tool, digest))
        if not calls:
            self.divergence = self._divergence_at(spec)
            self._stop()
            return self._diverged()
        call = calls.popleft()
        reply = self._replies.get(call.seq)
        if (error := self._denied.get(call.seq)) is not None:
            self.refused += 1
            if reply is not None:
                self._pass_over(reply.place)
            return ToolCallOutcome(error=error)
        if reply is None:
            end = self._recording.end
            if end is None or end.forced:  # nobody knows what the code would have got
                self.record_ended = True
                self._stop()
            await asyncio.Event().wait()  # it got nothing then either; the end of the execution cancels this
        assert reply is not None
        await self._turn(reply.place)
        self.served += 1
        outcome = outcome_of(reply.reply, self._recording.header.run_id)
        if outcome.error is not None and outcome.error.type is CallErrorType.PLAN_EXCEEDED:
            self.record_ended = True  # its plan ended the execution here
            self._stop()
        return outcome

    # --- the order of replies

    async def _turn(self, place: int) -> None:
        turn = self._waiting[place] = asyncio.get_running_loop().create_future()
        self._advance()
        await turn

    def _advance(self) -> None:
        if self._skip is not None:
            self._skip.cancel()
            self._skip = None
        while self._places and (turn := self._waiting.pop(self._places[0], None)) is not None:
            self._places.popleft()
            if not turn.done():
                turn.set_result(None)
        if self._waiting:
            self._skip = asyncio.get_running_loop().call_later(SKIP_AFTER_S, self._skip_missing)

    def _skip_missing(self) -> None:
        """The call that is next is not made this time, or depends on something that the code does not tell us."""
        first = min(self._waiting, default=0)
        while self._places and self._places[0] < first:
            self._places.popleft()
        self._advance()

    def _pass_over(self, place: int) -> None:
        self._places.remove(place)
        self._advance()

    # --- divergence

    def _diverged(self) -> ToolCallOutcome:
        problem = "the recording has no such call here, so the replay ends; a replay calls no server"
        return ToolCallOutcome(error=CallError(type=CallErrorType.REPLAY_DIVERGED, message=problem))

    def _divergence_at(self, spec: ToolCallSpec) -> Divergence:
        asked = CallShown(
            number=self._made,
            server_id=spec.server_id,
            tool_name=spec.tool,
            arguments=self._shown(spec.arguments),
        )
        left = list(self.not_made)
        same_tool = [one for one in left if (one.server_id, one.tool_name) == (asked.server_id, asked.tool_name)]
        recorded = next(iter(same_tool or left), None)
        differences = tuple(differences_of(recorded.arguments, asked.arguments)) if same_tool and recorded else ()
        return Divergence(asked=asked, recorded=recorded, differences=differences[:DIFFERENCES_MAX])


def shown_call(call: RecordedCall) -> CallShown:
    try:
        arguments: JsonValue = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = None
    return CallShown(number=call.seq, server_id=call.server_id, tool_name=call.tool_name, arguments=arguments)


def outcome_of(reply: bytes, run_id: str) -> ToolCallOutcome:
    """A recorded reply as the pipeline would have given it. Raises RecordingError."""
    members = read_object(reply, run_id)
    raw = members.get("raw")
    result = raw if isinstance(raw, dict) else None
    if members.get("ok") is True:
        data_from: DataFrom | None = next((one for one in _DATA_FROM if one == members.get("data_from")), None)
        if data_from is None or result is None:
            raise RecordingError(f"the recording of {run_id} is damaged")
        return ToolCallOutcome(raw=result, data_from=data_from)
    error = members.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    if not isinstance(error, dict) or kind not in set(CallErrorType):
        raise RecordingError(f"the recording of {run_id} is damaged")
    told = CallError(
        type=CallErrorType(str(kind)), message=str(error.get("message", "")), retryable=error.get("retryable") is True
    )
    return ToolCallOutcome(error=told, raw=result)


def differences_of(recorded: JsonValue, asked: JsonValue, pointer: str = "", depth: int = 0) -> list[Difference]:
    """Where two arguments differ, by JSON pointer; as many as are shown."""
    if _equal(recorded, asked):
        return []
    found: list[Difference] = []
    if depth < 32 and isinstance(recorded, dict) and isinstance(asked, dict):
        for name in [*recorded, *(one for one in asked if one not in recorded)]:
            at = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in recorded or name not in asked:
                found.append(_difference(at, recorded.get(name, ...), asked.get(name, ...)))
            else:
                found += differences_of(recorded[name], asked[name], at, depth + 1)
            if len(found) >= DIFFERENCES_MAX:
                break
        return found
    if depth < 32 and isinstance(recorded, list) and isinstance(asked, list) and len(recorded) == len(asked):
        for at, (one, other) in enumerate(zip(recorded, asked, strict=True)):
            found += differences_of(one, other, f"{pointer}/{at}", depth + 1)
            if len(found) >= DIFFERENCES_MAX:
                break
        return found
    return [_difference(pointer, recorded, asked)]


def _equal(one: JsonValue, other: JsonValue) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _difference(pointer: str, recorded: object, asked: object) -> Difference:
    def shown(value: object) -> str | None:
        return None if value is ... else clipped(json.dumps(value, ensure_ascii=False))

    return Difference(pointer=pointer, recorded=shown(recorded), asked=shown(asked))
