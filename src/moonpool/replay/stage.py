"""The stage of a replay: what it needs of the process, the files that were put before the code, and its grant.

INVARIANT: a replay asks nobody, and is on record under the principal who replays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.core.errors import MoonpoolError
from moonpool.engine.files.records import TransferRecorder
from moonpool.engine.files.service import AtRest, FileLimits, SessionFiles
from moonpool.pipeline.call_state import CallContext
from moonpool.pipeline.caller_grant import CallerGrant, RunFacts
from moonpool.pipeline.execution_grant import ExecutionGrant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import NoReturn

    from moonpool.core.audit import Journal
    from moonpool.engine.artifacts import Artifacts
    from moonpool.engine.packages.store import WheelStore
    from moonpool.features.approvals.model import ApprovalRequest
    from moonpool.features.recordings.model import RecordedInput
    from moonpool.features.usage.token_accounting import TokenAccounting
    from moonpool.policy import CallFacts
    from moonpool.redaction.redactor import Redactor
    from moonpool.sandboxes.base import Sandbox, SandboxBackend, SandboxSpec
    from moonpool.settings import Settings


class ReplayImpossibleError(MoonpoolError):
    """The recording is good, but what it needs of this machine is not there any more. Nothing was run."""

    code = "replay_impossible"


@dataclass(frozen=True, kw_only=True)
class ReplayParts:
    """What a replay needs of the process: the `RunServices` of its runs, and a backend."""

    settings: Settings
    backend: SandboxBackend
    journal: Journal
    redactor: Redactor
    artifacts: Artifacts
    sandbox_spec: SandboxSpec
    process: str
    principal: str
    tokens: TokenAccounting
    trees: Path  # an empty folder that sandboxes may read
    wheels: WheelStore


async def put_again(parts: ReplayParts, session_id: str, sandbox: Sandbox, one: RecordedInput) -> None:
    """Put a file or folder that was put before the code; nothing where its content was not kept."""
    settings = parts.settings
    limits = FileLimits(
        file_bytes_max=settings.file_bytes_max,
        disk_bytes_max=settings.disk_bytes_max,
        timeout_s=settings.transfer_timeout_s,
    )
    recorder = TransferRecorder(
        journal=parts.journal,
        redactor=parts.redactor,
        principal=parts.principal,
        session_id=session_id,
    )
    files = SessionFiles(AtRest(sandbox), limits, recorder)
    if one.missing:
        return
    if one.what == "file":
        await files.put(one.path, _bytes_of(one.content), mode=one.mode, replace=one.replace)
    elif one.what == "archive":
        form = "zip" if one.form == "zip" else "tar"
        await files.unpack(one.path, _bytes_of(one.content), form=form, replace=one.replace)
    elif one.what == "folder":
        await files.make_folder(one.path)
    else:
        await files.delete(one.path, recursive=one.recursive)
    sandbox.detach()


def replay_grant(principal: str) -> CallerGrant:
    """The grant of every replayed execution."""

    def make_context(facts: RunFacts) -> CallContext:
        return CallContext(
            identity=facts.identity,
            grant=ExecutionGrant(approvals=_NoApprovals()),
            manifest=lambda: facts.snapshot().manifest,
            clock=lambda: facts.deadline.running_s,
            counters=facts.counters,
            memory=facts.memory,
        )

    return CallerGrant(principal=principal, make_context=make_context)


async def _bytes_of(content: bytes) -> AsyncIterator[bytes]:
    if content:
        yield content


class _NoApprovals:
    """INVARIANT: a replay asks nobody."""

    async def settle(self, request: ApprovalRequest, facts: CallFacts | None = None) -> NoReturn:
        raise AssertionError(f"a replay asked for an approval of {request.server_id}.{request.tool_name} ({facts})")
