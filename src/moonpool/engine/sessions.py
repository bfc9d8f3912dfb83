"""Sessions: a principal's handle on a kernel. `engine.runtime.Runtime` opens them.

The start of an execution is on record before its code starts, the envelope is made whatever happens, the end is on
record before the envelope is handed out.

A session whose kernel died starts afresh at its next execution, or goes on from its newest checkpoint where it has
some; the envelope of the execution that killed it says which.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from moonpool.core.envelope import ExecutionError
from moonpool.core.errors import HostUnfitError, InputError, MoonpoolError, told
from moonpool.core.languages import PYTHON
from moonpool.engine.branches import Branch, CheckpointError, SharedKernel
from moonpool.engine.checkpoints import CheckpointRecorder, SessionCheckpoints
from moonpool.engine.code_request import check_request
from moonpool.engine.envelopes import internal_error
from moonpool.engine.execution_spec import SandboxHistory
from moonpool.engine.files.errors import FileTransferError
from moonpool.engine.files.recorded_files import InputKeeper
from moonpool.engine.files.records import TransferRecorder
from moonpool.engine.files.service import FileLimits, SessionFiles
from moonpool.engine.languages import LanguageUnavailableError
from moonpool.engine.network import GuestNetwork
from moonpool.engine.packages.model import PackageError, PackagesOffError
from moonpool.engine.packages.requests import answer_of
from moonpool.engine.packages.service import SessionInstalls
from moonpool.engine.runs import CANCELLED_EARLY, InterruptedRunError, Run
from moonpool.engine.session_sandbox import SessionSandbox, same_folders
from moonpool.engine.stored_files.model import StoredFilesError
from moonpool.features.plans.model import PlanError, PlanStoreError
from moonpool.pipeline.budgets import SessionMemory
from moonpool.sandboxes.host_folders import FolderError
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.core.envelope import Envelope
    from moonpool.engine.branches import Undone
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.packages.model import InstalledPackages
    from moonpool.engine.packages.requests import InstallAnswer
    from moonpool.engine.runtime_services import RuntimeServices
    from moonpool.engine.stored_files.remembered_packages import RememberedPackages
    from moonpool.engine.stored_files.run_storage import RunStorage
    from moonpool.network.rules import NetworkRules
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.host_folders import HostFolders
    from moonpool.tools.snapshot import ToolSnapshot


_log = logging.getLogger(__name__)
SESSION_ID_CHARS_MAX: Final = 200
_BEFORE_KEEPING_S: Final = 0.005
"""How long a checkpoint is not begun: a fork of a large process would keep the caller's thread from its answer, where
the kernel does not preempt, and half of all undos took 4 to 30 ms more."""


class Session:
    """One kernel and its state. Executions run one after the other."""

    def __init__(  # noqa: PLR0913  what a session has
        self,
        runtime: RuntimeServices,
        caller_grant: CallerGrant,
        *,
        session_id: str | None = None,
        final: bool = False,
        checkpoints: bool = False,
        network: NetworkRules | None = None,
        folders: HostFolders | None = None,
        storage: RunStorage | None = None,
        origin: tuple[SharedKernel, Branch, SessionMemory] | None = None,
    ) -> None:
        """`origin` is what a forked session begins with."""
        if checkpoints and folders is not None:
            raise InputError("a session with a folder of this machine cannot be undone; leave out checkpoints=True")
        if storage is not None and (folders is not None or not final):
            raise InputError("a thread or volume is for one execution, in a sandbox without folders of this machine")
        self._storage = storage
        self._sandbox_spec = replace(runtime.sandbox_spec, folders=folders)
        self.session_id = _checked_id(session_id) if session_id else token_hex(16)
        self._runtime, self._caller_grant, self._final = runtime, caller_grant, final
        twins_max = runtime.sandbox_spec.limits.process_count_max // 2
        self._kernel = SharedKernel(InputKeeper(), twins_max)
        self._branch = Branch(self._kernel) if checkpoints else None
        if network is not None:
            self._kernel.network = self.open_network(network)
        self._keeping: asyncio.Task[None] | None = None  # that has a checkpoint made
        self._used = False
        self._ending: asyncio.Future[None] | None = None  # of the session, once it closes
        self._idle = asyncio.Event()  # while it does nothing with its kernel
        self._idle.set()
        self._run: Run | None = None
        self.last_recovery: tuple[str, Undone] | None = None  # the execution whose process ended, and what is back
        self._memory = SessionMemory()  # of budgets and labels; outlives a kernel that died
        if origin is not None:
            self._kernel, self._branch, self._memory = origin
            self._used = True
        self._sandbox = SessionSandbox(
            self._kernel, self._sandbox_spec, runtime.pool, runtime.tool_registry, caller_grant.principal
        )

    async def execute(self, request: CodeRequest) -> Envelope:
        """Run code with the variables and files of earlier executions. Waits for its turn.

        What waits still when the session closes ends as `Cancelled`.

        Raises InputError, and HostUnfitError where this machine turns out not to isolate code.
        """
        has_folders, has_network = self._sandbox_spec.folders is not None, self._kernel.network is not None
        check_request(request, self._runtime.settings, has_network=has_network, has_folders=has_folders)
        with self._runtime.executing():
            async with self._turn():
                try:
                    return await self._execute(request)
                finally:
                    self._run = None
                    self._keep_soon()

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Its turn with the kernel. INVARIANT: whoever gets it looks whether the session closes."""
        async with self._kernel.turn:
            self._idle.clear()
            try:
                yield
            finally:
                self._idle.set()

    def open_network(self, rules: NetworkRules) -> GuestNetwork:
        """A network on record under this session. Raises NetworkRuleError."""
        runtime = self._runtime
        return GuestNetwork(
            rules,
            runtime.network_services,
            runtime.settings,
            runtime.journal,
            principal=self._caller_grant.principal,
            session_id=self.session_id,
        )

    @property
    def network(self) -> GuestNetwork:
        """What its code may reach, and changes of that. Branches share it. Raises InputError without a network."""
        if self._kernel.network is None:
            raise InputError("this session has no network; open it with one, even one that allows nothing yet")
        return self._kernel.network

    @property
    def files(self) -> SessionFiles:
        """Put, get, list, archive: the files of this session."""
        runtime, settings = self._runtime, self._runtime.settings
        limits = FileLimits(
            file_bytes_max=settings.file_bytes_max,
            disk_bytes_max=settings.disk_bytes_max,
            timeout_s=settings.transfer_timeout_s,
        )
        recorder = TransferRecorder(
            journal=runtime.journal,
            redactor=runtime.redactor,
            principal=self._caller_grant.principal,
            session_id=self.session_id,
            under_way=runtime.executing,
        )
        return SessionFiles(self, limits, recorder, None if runtime.recorder is None else self._kernel.inputs)

    @contextlib.asynccontextmanager
    async def at_rest(self, *, afresh: bool) -> AsyncGenerator[Sandbox]:
        """The sandbox between executions; no code starts meanwhile. See `moonpool.engine.files.service.FileSession`."""
        async with self._runtime.transferring(), self._turn():
            self._check_open()
            if self._used and not afresh and (self._kernel.sandbox is None or self._kernel.sandbox.has_ended):
                raise FileTransferError("the sandbox of this session has ended, and its files with it; run code again")
            sandbox, _ = self._sandbox.at_hand() or await self._sandbox.ready()
            self._check_open()
            self._used = True
            if self._branch is not None:
                await self._branch.enter(sandbox)
                await self._branch.keep(sandbox)
                self._branch.changed()
            await same_folders(sandbox)
            yield sandbox
            await same_folders(sandbox)

    async def install(self, specifier: str) -> InstalledPackages:
        """Install packages for this session, such as `numpy>=2`; code that runs already can import them, too.

        Several are separated by spaces or lines. Raises PackageError, whose subclasses say why nothing was installed.
        """
        runtime, principal = self._runtime, self._caller_grant.principal
        self._check_open()
        if runtime.packages is None:
            raise PackagesOffError
        try:
            async with runtime.transferring():
                installs = SessionInstalls(
                    kernel=self._kernel,
                    installer=await runtime.packages(),
                    open_network=self.open_network,
                    journal=runtime.journal,
                    principal=principal,
                    session_id=self.session_id,
                )
                return await installs.install(specifier)
        except FileTransferError:
            raise PackageError("nothing was installed: Moonpool was closed meanwhile") from None

    async def _install_for_code(self, specifier: str) -> InstallAnswer:
        return await answer_of(self.install(specifier))

    def with_packages_of(self, other: Session) -> Session:
        """This session, which has run nothing yet, with what `other` installed."""
        self._kernel.packages = other._kernel.packages
        return self

    def interrupt(self, *, at_once: bool = False, run_id: str = "") -> None:
        """End what runs now, or only `run_id` if it does, as `Cancelled`: interrupt, grace, kill; `at_once` kills.

        Its envelope is made as ever.
        """
        if self._run is not None and run_id in {"", self._run.run_id}:
            self._run.interrupt(at_once=at_once and self._kernel.users == 1)  # branches end with the sandbox

    async def _execute(self, request: CodeRequest) -> Envelope:  # noqa: C901  each way not to start
        install = None if self._runtime.packages is None else self._install_for_code
        run = self._run = Run(
            self._runtime.knowing(request.variables) if request.variables else self._runtime,
            self._caller_grant,
            self.session_id,
            request,
            self._memory,
            install,
            self._sandbox_spec.folders,
        )
        snapshot: ToolSnapshot | None = None
        try:
            sandbox, snapshot = await self._ready(request, run)
            if self._storage is not None:
                await run.opening(self._bring_in(self._storage, sandbox))
        except InterruptedRunError:
            return await run.failed_to_start(CANCELLED_EARLY, snapshot)
        except LanguageUnavailableError as error:
            failure = ExecutionError(type="LanguageUnavailable", message=str(error))
            return await run.failed_to_start(failure, snapshot)
        except HostUnfitError as error:  # recorded, but nothing that a program should read as a failed execution
            await run.failed_to_start(self._sandbox_error(error), snapshot)
            raise
        except StoredFilesError as error:
            kind = "StorageFull" if error.is_full else "StorageError"
            failure = ExecutionError(type=kind, message=str(error), retryable=error.retryable)
            return await run.failed_to_start(failure, snapshot)
        except FolderError as error:
            return await run.failed_to_start(ExecutionError(type="FolderError", message=str(error)), snapshot)
        except (PlanError, PlanStoreError):  # nothing was run, and nothing is on record but the plan
            raise
        except MoonpoolError as error:
            return await run.failed_to_start(self._sandbox_error(error), snapshot)
        except Exception as error:  # noqa: BLE001  the last resort: whatever it is, the caller gets an envelope
            return await run.failed_to_start(internal_error(error), snapshot)
        self._used = True
        count, sandbox_id = self._kernel.position
        position = count if sandbox_id == sandbox.sandbox_id else 0
        self._kernel.position = (position + 1, sandbox.sandbox_id)
        history = SandboxHistory(
            position=position,
            inputs=self._kernel.inputs.take(sandbox.sandbox_id),
            was_put_back=self._kernel.was_put_back,
            has_checkpoints=self._branch is not None,
            has_folders=self._sandbox_spec.folders is not None,
            network=self._kernel.network,
            packages=self._kernel.packages.installed.packages,
        )
        self._kernel.was_put_back = False
        try:
            return await run.on(
                sandbox,
                lambda: self._sandbox.snapshot or snapshot,
                final=self._final,
                history=history,
                recover=lambda run: self._recover(run, sandbox),
                storage=self._storage,
            )
        finally:
            if self._branch is not None and (run.outcome is None or run.outcome.recovered is None):
                self._branch.ran(
                    run.run_id, run.sent_calls, sandbox, told=run.outcome is None or run.outcome.done is None
                )
            if sandbox.has_ended:
                self._kernel.sandbox = None

    async def _bring_in(self, storage: RunStorage, sandbox: Sandbox) -> None:
        limits, hides_host = self._sandbox_spec.limits, self._caller_grant.hides_host
        await storage.bring_in(sandbox, limits, hides_host=hides_host)
        if storage.packages is not None:
            storage.remark(await self._packages_again(storage.packages))
            await self._kernel.packages.show(sandbox)
            storage.packages.begin(self._kernel.packages)

    async def _packages_again(self, remembered: RememberedPackages) -> str:
        """Have what code of the thread installed before; what is to be said where that is not possible."""
        known = await remembered.read()
        if known is None or self._runtime.packages is None:
            return ""
        try:
            installer = await self._runtime.packages()
            again = await installer.again(known.requirements, known.wheels)
            if again is None:
                await self.install("\n".join(known.requirements.values()))
            else:
                self._kernel.packages.installed = again
        except PackageError as error:
            return f"the packages of the thread are not there: {error.for_guest}"
        return ""

    def _sandbox_error(self, error: MoonpoolError) -> ExecutionError:
        message = told(error, hides_host=self._caller_grant.hides_host)
        if message != str(error):
            _log.warning("an execution could not start: %s", error)
        return ExecutionError(type="SandboxError", message=message, retryable=error.retryable)

    async def _recover(self, run: Run, sandbox: Sandbox) -> Undone | None:
        if self._branch is None:  # only a sandbox with checkpoints outlives the process that runs code
            sandbox.kill()
            return None
        recovered = await self.checkpoints.recover(sandbox, run.run_id, run.sent_calls)
        self.last_recovery = None if recovered is None else (run.run_id, recovered)
        return recovered

    async def _ready(self, request: CodeRequest, run: Run) -> tuple[Sandbox, ToolSnapshot]:
        """Raises InterruptedRunError when the run is interrupted, or the session closed."""
        self._check_wanted(run)
        await self._runtime.tool_registry.recheck_library()
        if request.plan is not None:
            ready = await run.opening(self._ready_under_plan(request, request.plan, run))
        elif request.language == PYTHON:
            ready = self._sandbox.at_hand() or await run.opening(self._sandbox.ready())
        else:
            ready = await run.opening(self._ready_for(request))
        if self._branch is not None:
            await run.opening(self._entered(ready[0], self._branch))
        if self._sandbox_spec.folders is not None:
            run.folder_remark = await run.opening(same_folders(ready[0]))
        self._check_wanted(run)  # nothing is awaited from here until its code can be ended
        return ready

    async def _entered(self, sandbox: Sandbox, branch: Branch) -> None:
        await branch.enter(sandbox)
        await branch.keep(sandbox)

    def _check_wanted(self, run: Run) -> None:
        run.check_wanted()
        if self._ending is not None or self._runtime.is_closed:
            raise InterruptedRunError

    def _check_open(self) -> None:
        """Raises InputError."""
        self._runtime.check_open()
        if self._ending is not None:
            raise InputError("this session is closed; open another one")

    # --- checkpoints

    @property
    def checkpoints(self) -> SessionCheckpoints[Session]:
        """Undo and fork. Raises InputError for a session without."""
        if self._sandbox_spec.folders is not None:
            raise InputError("a session with a folder of this machine has no checkpoints")
        if self._branch is None:
            raise InputError("this session keeps no checkpoints; open it with checkpoints=True")
        runtime, principal = self._runtime, self._caller_grant.principal
        recorder = CheckpointRecorder(runtime.journal, runtime.redactor, principal, self.session_id)
        return SessionCheckpoints(self, self._branch, recorder)

    @contextlib.asynccontextmanager
    async def in_use(self) -> AsyncGenerator[Sandbox]:
        """The sandbox with this session's state, between executions; see `engine.checkpoints`.

        Raises CheckpointError, InputError.
        """
        async with self._turn():
            self._check_open()
            if self._used and (self._kernel.sandbox is None or self._kernel.sandbox.has_ended):
                raise CheckpointError("the sandbox of this session has ended, and its checkpoints with it")
            sandbox, _ = self._sandbox.at_hand() or await self._sandbox.ready()
            self._check_open()
            self._used = True
            if self._branch is not None:
                await self._branch.enter(sandbox)
            try:
                yield sandbox
            finally:
                self._keep_soon()

    def forked(self, branch: Branch) -> Session:
        """A session of this one's sandbox."""
        session = Session(self._runtime, self._caller_grant, origin=(self._kernel, branch, self._memory))
        self._runtime.look_after(session)
        return session

    def _keep_soon(self) -> None:
        """Have a checkpoint made while nobody waits; whoever comes first makes it."""
        if self._branch is not None and (self._keeping is None or self._keeping.done()):
            self._keeping = asyncio.ensure_future(self._keep(self._branch))

    async def _keep(self, branch: Branch) -> None:
        await asyncio.sleep(_BEFORE_KEEPING_S)
        async with self._turn():
            sandbox = self._kernel.sandbox
            if sandbox is not None and not sandbox.has_ended and self._kernel.active is branch:
                await branch.keep(sandbox)

    async def _ready_under_plan(self, request: CodeRequest, plan_id: str, run: Run) -> tuple[Sandbox, ToolSnapshot]:
        if self._runtime.plans is None:
            raise PlanError(f"plan {plan_id[:80]!r} cannot be used: no plans are kept here")
        watch = await self._runtime.plans.take(
            plan_id, self._caller_grant, code=request.code, language=request.language, run_id=run.run_id
        )
        run.under(watch)
        return await self._ready_for(request)

    async def _ready_for(self, request: CodeRequest) -> tuple[Sandbox, ToolSnapshot]:
        await self._runtime.languages.prepare(request, network=self._kernel.network is not None)
        # Another language's process would be there from the start: too early to be forked, or to read whom to trust.
        language = request.language if self._branch is None and self._kernel.network is None else PYTHON
        return self._sandbox.at_hand(language) or await self._sandbox.ready(language)

    async def close(self) -> None:
        """End what runs and waits, and the kernel. Idempotent; each call returns when all has ended."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        await finish(_ended(self._ending))

    async def _end(self) -> None:
        kernel = self._kernel
        self._runtime.forget(self)
        self._runtime.tool_registry.forget_caller(self.session_id)
        await self._sandbox.close()
        self.interrupt(at_once=True)
        if kernel.users == 1 and kernel.sandbox is not None:
            await kernel.sandbox.close()  # first: with it ends whatever waits for the code
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self._branch is not None and kernel.users > 1:
            await (
                self._idle.wait()
            )  # else its work would end with the sandbox, or checkpoints be made that nobody drops
            self._branch.close()
        kernel.users -= 1
        if kernel.users > 0:
            return
        async with kernel.turn:  # nobody opens another one after this
            if kernel.sandbox is not None:
                await kernel.sandbox.close()
                kernel.sandbox = None
        if kernel.network is not None:
            await kernel.network.close()


async def _ended(ending: asyncio.Future[None]) -> None:
    await ending


def _checked_id(session_id: str) -> str:
    if len(session_id) > SESSION_ID_CHARS_MAX or not session_id.isprintable():
        raise InputError(
            f"{session_id[:80]!r} cannot be the id of a session; use up to {SESSION_ID_CHARS_MAX} printable characters"
        )
    return session_id
