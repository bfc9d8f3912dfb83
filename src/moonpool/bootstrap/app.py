"""The whole application.

`assemble` builds every long-lived object in dependency order and closes them in reverse on every way out. A machine
that cannot isolate code gets an error before anything is started (fail closed).
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Never

from moonpool.bootstrap.library import settle_library
from moonpool.bootstrap.places import data_folder, sandbox_uid
from moonpool.bootstrap.programs import find_runtimes, make_languages
from moonpool.bootstrap.recordings import open_recorder
from moonpool.bootstrap.sandboxes import limit_groups, make_backend, pool_limits, sandbox_spec
from moonpool.bootstrap.tickets import make_ticket, server_trust
from moonpool.bootstrap.token_counts import make_token_book
from moonpool.bootstrap.tools import DriftRecords, make_lessons, make_redactor, open_toolbox
from moonpool.broker.known_values import GrowingValues
from moonpool.broker.policies import policy_in_force
from moonpool.broker.relay import Relay
from moonpool.broker.road import ToolRoad
from moonpool.core.errors import HostUnfitError
from moonpool.environments.resolve import resolve_environment
from moonpool.runtime.approval_events import EventApprover
from moonpool.runtime.approvals import Approvals
from moonpool.runtime.artifacts import ArtifactLimits, Artifacts
from moonpool.runtime.engine_sockets import refuse_shown
from moonpool.runtime.journal_records import JournalRecords
from moonpool.runtime.plans import Plans
from moonpool.runtime.process_marks import is_gone
from moonpool.runtime.run_folder import run_folder
from moonpool.runtime.sessions import Runtime
from moonpool.runtime.tool_snapshot import show
from moonpool.sandboxes.pool import SandboxPool
from moonpool.store.approvals import ApprovalStore
from moonpool.store.journal import open_journal
from moonpool.store.outcomes import OutcomeStore
from moonpool.store.paths import approvals_path, journal_path, outcomes_dir, plans_path
from moonpool.store.plans import PlanStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from moonpool.bootstrap.models import VectorMaker
    from moonpool.broker.approval import Approver
    from moonpool.broker.config import McpConfig
    from moonpool.core.envelope import Envelope
    from moonpool.core.policy import Policy
    from moonpool.environments.base import ProgressSink
    from moonpool.runtime.lessons import Lessons
    from moonpool.runtime.ticket import Ticket
    from moonpool.runtime.tools import Toolbox
    from moonpool.sandboxes.base import Sandbox, SandboxBackend
    from moonpool.settings import Settings


@dataclass(frozen=True, kw_only=True)
class App:
    """What faces and commands use."""

    settings: Settings
    runtime: Runtime
    toolbox: Toolbox
    lessons: Lessons
    backend: SandboxBackend
    ticket: Ticket
    data: Path
    policy: Policy
    outcomes: OutcomeStore
    approvals: Approvals
    vectors: VectorMaker | None = None

    async def keep_outcome(self, envelope: Envelope, /) -> None:
        """Keep what came of an execution whose caller is gone. Raises StoreFolderError, OSError."""
        await asyncio.to_thread(self.outcomes.keep, envelope.run_id, envelope.to_json())

    async def prove(self) -> None:
        """Open one sandbox, before anybody hears "ready". Raises HostUnfitError, SandboxStartError.

        SECURITY: flags of the machine lie; only an opening shows that code can be isolated here.
        """
        sandbox = await self.backend.open_sandbox(self.runtime.sandbox_spec)
        await sandbox.close()


@asynccontextmanager
async def assemble(
    settings: Settings,
    *,
    config: McpConfig | None,
    approver: Approver,
    environ: Mapping[str, str],
    serving: bool = False,
    progress: ProgressSink | None = None,
    backend: SandboxBackend | None = None,
) -> AsyncGenerator[App]:
    """Build the application. Raises HostUnfitError, ConfigError and what the rooms raise at start.

    `serving` keeps a pool of ready sandboxes; a single command does not. `progress` hears of environments being built.
    A `backend` is one that several applications share; its owner closes it.
    """
    data = data_folder(settings, environ)
    policy = await asyncio.to_thread(policy_in_force, settings, config)  # first: without it nothing may start
    async with AsyncExitStack() as stack:
        if backend is None:
            folder = stack.enter_context(run_folder(data / "run"))
            backend = make_backend(settings, folder, await limit_groups(stack, settings))
            stack.push_async_callback(backend.close)
        if missing := backend.missing_features():
            raise HostUnfitError(tuple(missing))
        environment = await resolve_environment(
            settings.environment, root=data / "environments", uid=sandbox_uid(), progress=progress
        )
        found = await find_runtimes(data, environ)
        spec = sandbox_spec(settings, environment, data, found)
        await asyncio.to_thread(refuse_shown, spec.image, environ)
        journal = await stack.enter_async_context(open_journal(journal_path(data)))
        await settle_library(journal, settings, environ)
        approvals = ApprovalStore(approvals_path(data), is_gone=is_gone)
        stack.push_async_callback(asyncio.to_thread, approvals.close)
        records = JournalRecords(asyncio.get_running_loop(), journal.record)
        answers = Approvals(approvals, records)
        if isinstance(approver, EventApprover):
            stack.enter_context(approver.serving(answers))
        tokens = GrowingValues()
        redactor = make_redactor(settings, config, tokens)
        recorder = open_recorder(stack, settings, redactor, environ)
        drift = DriftRecords(data, redactor, journal)
        toolbox = await open_toolbox(
            stack,
            settings,
            config,
            environ,
            drift,
            handlers=Relay(redactor, journal, expiry_s=settings.approval_expiry_s).handlers_for,
            on_secrets=tokens.set_values,
        )
        if serving and settings.refresh_s and toolbox.server_ids:
            stack.push_async_callback(_stop, asyncio.create_task(toolbox.refresh_every(settings.refresh_s)))
        lessons = make_lessons(settings, config, data, redactor)
        stack.push_async_callback(lessons.close)
        pool = SandboxPool(
            backend,
            pool_limits(settings, serving=serving),
            on_opened=lambda sandbox: _show_tools(sandbox, toolbox),
        )
        stack.push_async_callback(pool.close)
        book = make_token_book(settings, data)
        stack.push_async_callback(book.close)
        runtime = Runtime(
            settings=settings,
            pool=pool,
            toolbox=toolbox,
            road=ToolRoad(toolbox, journal=journal, redactor=redactor, witness=lessons),
            journal=journal,
            redactor=redactor,
            artifacts=Artifacts(data / "private" / "artifacts", ArtifactLimits.of(settings)),
            sandbox_spec=spec,
            tokens=book,
            languages=await make_languages(found, data, environ),
            recorder=recorder,
            plans=Plans(
                PlanStore(plans_path(data)),
                records,
                expiry_s=settings.plan_expiry_s,
            ),
        )
        stack.push_async_callback(runtime.languages.close)
        stack.push_async_callback(runtime.close)
        yield App(
            settings=settings,
            runtime=runtime,
            toolbox=toolbox,
            lessons=lessons,
            backend=backend,
            ticket=make_ticket(settings, server_trust(config, redactor), policy, approver, approvals, toolbox),
            data=data,
            policy=policy,
            outcomes=OutcomeStore(outcomes_dir(data)),
            approvals=answers,
            vectors=_vectors(settings, data),
        )


def _vectors(settings: Settings, data: Path) -> VectorMaker | None:
    if settings.dense == "none":
        return None
    from moonpool.bootstrap.models import vector_maker  # noqa: PLC0415  with all of `embeddings`; most search by words

    return vector_maker(settings, data)


async def _show_tools(sandbox: Sandbox, toolbox: Toolbox) -> None:
    """Publish the wrappers before anybody asks for the sandbox."""
    if (snapshot := toolbox.current) is not None:
        await show(sandbox, snapshot)


async def _stop(task: asyncio.Task[Never]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
