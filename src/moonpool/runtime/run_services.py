"""What a run needs of the process around it, as a seam: a `Runtime`, or a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moonpool.broker.call_state import CallContext
    from moonpool.broker.redaction import Redactor
    from moonpool.core.audit import Journal
    from moonpool.core.calls import ToolCallOutcome, ToolCallSpec
    from moonpool.runtime.artifacts import Artifacts
    from moonpool.runtime.plans import Plans
    from moonpool.runtime.recording import Recorder
    from moonpool.runtime.token_book import TokenBook
    from moonpool.sandboxes.base import SandboxSpec
    from moonpool.settings import Settings


class Pipeline(Protocol):
    """The call pipeline (`moonpool.broker.call_pipeline`), or a recording (`moonpool.runtime.replay_pipeline`)."""

    async def run(self, spec: ToolCallSpec, context: CallContext, /) -> ToolCallOutcome: ...


class RunServices(Protocol):
    """What a run needs of the process (`moonpool.runtime.sessions.Runtime`)."""

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
    def tokens(self) -> TokenBook: ...
    @property
    def plans(self) -> Plans | None: ...
