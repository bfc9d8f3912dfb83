"""The one-line JSON record in which every execution ends (runtime contract, H-018 to H-034).

`Envelope.to_json` gives the guide's telemetry envelope. Only `result` may be large: everything else together stays
below 2 KiB (H-025). Additive members of `result`: `note`, `failed_calls` and `files` (only where there is something to
say), `stdout`, `stderr`, `exit_code` (X-07); of `result.metrics`: counts and bytes. Pictures travel beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from moonpool.core.calls import ApprovalState
from moonpool.core.created_files import MadeFiles, Picture, RichDisplay
from moonpool.core.json import JsonObject, JsonValue, digest_json

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionError:
    """Why an execution failed. `type` is a Python exception name or one of `docs/reference/runtime-contract.md`."""

    type: str  # such as NameError or Timeout
    message: str  # for people and models: what was wrong, and mostly what helps
    retryable: bool = False  # whether the same code may succeed later

    def to_json(self) -> JsonObject:
        """As the envelope has it."""
        return {"type": self.type, "message": self.message, "retryable": self.retryable}


FailedBy: TypeAlias = Literal["", "code", "result", "moonpool"]
"""What an error is from: nothing failed; the code raised it; its result, which cannot be handed over, although the code
came to its end; Moonpool ended the code, or could not run it.
"""
StateAfter: TypeAlias = Literal["kept", "recovered", "lost"]
"""What is left of a session's variables: all; those of a checkpoint; none, so that the next execution begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Outcome of one execution."""

    run_id: str
    trace_id: str
    tool_name: str
    tool_version: str
    input_digest: str
    sandbox_image: str
    duration_ms: int
    approval_state: ApprovalState = ApprovalState.NOT_REQUIRED
    data: JsonValue = None
    error: ExecutionError | None = None
    note: str = (
        ""  # why `data` is null although the code ended in an expression; which files of a folder were kept twice
    )
    failed_calls: JsonObject | None = None  # see `engine.failed_calls`; None: none failed
    metrics: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    extras: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])  # stdout, stderr, exit_code, signal
    made: MadeFiles = field(default_factory=MadeFiles)
    pictures: tuple[Picture, ...] = ()  # not in its JSON
    displays: tuple[RichDisplay, ...] = ()  # of IPython, not in its JSON
    failed_by: FailedBy = ""  # not in its JSON, and neither is the next
    state: StateAfter = "kept"

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def shown_size(self) -> int:
        """Bytes of pictures and characters of displays, which can be many times the rest."""
        forms = (text for one in self.displays for text in one.forms.values())
        return sum(len(one.data) for one in self.pictures) + sum(map(len, forms))

    @property
    def result(self) -> JsonObject:
        """`{ok, data|error, metrics}` of the result contract (H-027) and the additive members."""
        head: JsonObject = {"ok": True, "data": self.data}
        if self.error is not None:
            head = {"ok": False, "error": self.error.to_json()}
        if self.note:
            head["note"] = self.note
        if self.failed_calls is not None:
            head["failed_calls"] = self.failed_calls
        metrics: JsonObject = {"duration_ms": self.duration_ms, **self.metrics}
        return {**head, "metrics": metrics, **self.made.to_json(), **self.extras}

    def to_json(self, *, extras: bool = True) -> JsonObject:
        """The whole envelope. Without `extras` the additive members of `result` are left out.

        `output_digest` is taken over the canonical JSON of `data`, or of `error` when there is no data (H-032).
        """
        result = self.result
        if not extras:
            result = {key: value for key, value in result.items() if key not in self.extras}
        return {
            "run_id": self.run_id,
            "trace_id": self.trace_id,
            "tool_name": self.tool_name,
            "tool_version": self.tool_version,
            "input_digest": self.input_digest,
            "output_digest": digest_json(self.data if self.error is None else self.error.to_json()),
            "sandbox_image": self.sandbox_image,
            "duration_ms": self.duration_ms,
            "approval_state": str(self.approval_state),
            "result": result,
        }
