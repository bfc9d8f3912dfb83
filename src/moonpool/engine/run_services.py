"""What a run needs of the process around it, as a seam: a `Runtime`, or a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moonpool.core.audit import Journal
    from moonpool.core.calls import ToolCallOutcome, ToolCallSpec
    from moonpool.engine.artifacts import Artifacts
    from moonpool.features.plans.service import Plans
    from moonpool.features.recordings.recorder import Recorder
    from moonpool.features.usage.token_accounting import TokenAccounting
    from moonpool.pipeline.call_state import CallContext
    from moonpool.redaction.redactor import Redactor
    from moonpool.sandboxes.base import SandboxSpec
    from moonpool.settings import Settings
    from moonpool.tracing.spans import Tracing


class Pipeline(Protocol):
    """The call pipeline (`moonpool.pipeline.pipeline`), or a recording (`moonpool.replay.pipeline`)."""

    async def run(self, spec: ToolCallSpec, context: CallContext, /) -> ToolCallOutcome: ...


class RunServices(Protocol):
    """What a run needs of the process (`moonpool.engine.runtime.Runtime`)."""

    @property
    def settings(self) -> Settings: ...
    @property
    def pipeline(self) -> Pipeline: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def redactor(self) -> Redactor: ...
    @property
    def artifacts(self) -> Artifacts: ...
    @property
    def sandbox_spec(self) -> SandboxSpec: ...
    @property
    def process(self) -> str: ...
    @property
    def recorder(self) -> Recorder | None: ...
    @property
    def tokens(self) -> TokenAccounting: ...
    @property
    def plans(self) -> Plans | None: ...
    @property
    def tracing(self) -> Tracing | None: ...
