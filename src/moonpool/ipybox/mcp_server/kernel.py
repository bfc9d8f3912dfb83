"""The kernel of one connection: executions one after the other, and the start of a new kernel."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.phrases import clip
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.interruption import interruptible
from moonpool.ipybox.kernel_code import failure_of, preparation, shown_text
from moonpool.sdk.results import result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject
    from moonpool.engine.runtime import Runtime
    from moonpool.engine.sessions import Session
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.sandboxes.base import Stream
    from moonpool.sdk.results import Result

_T = TypeVar("_T")
_NEW_KERNEL: Final = "[This is a new kernel: the one before was not used for long and has ended, with its variables.]"


class KernelResetError(MoonpoolError):
    """The kernel was reset before this had ended."""

    code = "kernel_reset"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__("the kernel was reset before this came to its end; call it again where it is still wanted")


class KernelHome(Protocol):
    """Where a kernel works, and where its user finds what an answer in text does not hold."""

    @property
    def kernel_variables(self) -> Mapping[str, str]: ...
    @property
    def calls(self) -> tuple[str, ...]:
        """Calls of the kernel's own code that prepare it."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether its user has files of this machine, so that paths mean something to them."""
        ...

    def make_packages(self) -> None:
        """What a kernel needs to be there when it starts. Blocking. Raises InputError."""
        ...

    def keep_pictures(self, result: Result) -> list[tuple[str, str]]:
        """Names and paths of the pictures that code showed. Blocking. Raises OSError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """How long a kernel that nobody uses stays, and what counts it: `take` gives what is called when it is gone."""

    idle_s: float
    take: Callable[[], Callable[[], None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellText:
    """What a cell came to, as text."""

    text: str
    failed: bool

    def to_json(self) -> JsonObject:
        return {"text": self.text, "failed": self.failed}


class Kernel:
    """One kernel at a time. A new one has the variables, the folder and the packages of the one before."""

    def __init__(
        self, runtime: Runtime, grant: CallerGrant, home: KernelHome, *, ipython: bool, stay: Stay | None = None
    ) -> None:
        """Sessions of `runtime` have the home. `ipython`: code is read as IPython reads it. Without `stay` it stays."""
        self._runtime, self._grant, self._home = runtime, grant, home
        self._ipython, self._stay = ipython, stay
        self._session: Session = runtime.session(grant)
        self._prepared = False
        self._was_idle = False  # for so long that its variables are gone, which nobody was told yet
        self._leave: Callable[[], None] | None = None  # while it counts
        self._timer: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._work: set[asyncio.Task[Any]] = set()  # what has the turn or waits for it

    async def execute(self, request: CodeRequest, chars_max: int) -> Envelope:
        """Run code; `data` of the envelope is its `CellText` as JSON. Waits for its turn.

        Of text with more than `chars_max` characters the beginning and the end are in it, and where all of it is.

        Cancelling it interrupts the code, and waits for its end. Raises InputError, FileTransferError,
        KernelResetError, and what `Stay.take` raises.
        """
        return await self._until_reset(self._execute(request, chars_max))

    async def _execute(self, request: CodeRequest, chars_max: int) -> Envelope:
        async with self._turn:
            if failed := await self._prepare():
                return failed
            pieces: list[bytes] = []
            heard = request.observer

            def hear(stream: Stream, data: bytes) -> None:
                pieces.append(data)
                if heard is not None:
                    heard(stream, data)

            request = replace(request, observer=hear, ipython=self._ipython)
            envelope = await interruptible(self._session, request, at_once=False)
            self._prepared = envelope.state == "kept"
            cell = await self._text(envelope, b"".join(pieces).decode(errors="replace"), request.timeout_s)
            if len(cell.text) > chars_max:
                where = await self._kept(envelope.run_id, cell.text) if self._home.is_here else _too_long(cell.text)
                cell = replace(cell, text=f"{clip(cell.text, chars_max)}\n\n[{where}]")
            if self._was_idle:
                self._was_idle = False
                cell = replace(cell, text=f"{_NEW_KERNEL}\n\n{cell.text}".rstrip())
            return replace(envelope, data=cell.to_json())

    async def _kept(self, run_id: str, text: str) -> str:
        """Where all of a text is now."""
        artifacts = self._runtime.artifacts
        try:
            where = await artifacts.of_run(run_id, self._session.session_id).keep("cell", text.encode(errors="replace"))
            await artifacts.make_room()
        finally:
            artifacts.close(run_id)
        return where

    async def install(self, specifier: str) -> str:
        """Install packages for executed code; what came of it. Waits for its turn.

        Raises PackageError, KernelResetError.
        """
        return await self._until_reset(self._install(specifier))

    async def _install(self, specifier: str) -> str:
        async with self._turn:
            return str(await self._session.install(specifier))

    async def reset(self) -> None:
        """Begin anew. What runs is ended first, and what waits: it may wait for a person."""
        if ended := tuple(self._work):
            for work in ended:
                work.cancel()
            await asyncio.wait(ended)
        self._was_idle = False
        await self._renew()

    async def _renew(self) -> None:
        async with self._turn:
            before = self._session
            self._session = self._runtime.session(self._grant).with_packages_of(before)
            self._prepared = False
            await before.close()

    async def _until_reset(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """What it comes to. Raises KernelResetError when `reset` ends it, and what `Stay.take` raises."""
        try:
            self._begin()
        except MoonpoolError:
            coroutine.close()
            raise
        work = asyncio.ensure_future(coroutine)
        self._work.add(work)
        work.add_done_callback(self._over)
        try:
            return await work  # cancelling this cancels it, and waits for its end
        except asyncio.CancelledError:
            if (own := asyncio.current_task()) is not None and own.cancelling():
                raise
            raise KernelResetError from None

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._stay is not None and self._leave is None:
            self._leave = self._stay.take()

    def _over(self, work: asyncio.Task[Any]) -> None:
        self._work.discard(work)
        if self._stay is not None and not self._work:
            self._timer = asyncio.get_running_loop().call_later(self._stay.idle_s, self._rest)

    def _rest(self) -> None:
        self._resting = asyncio.ensure_future(self._give_up())

    async def _give_up(self) -> None:
        """It was idle for long: end it. What comes next begins anew and is told so."""
        self._was_idle = self._prepared
        await self._renew()
        if not self._work:
            self._forget()

    def _forget(self) -> None:
        if self._leave is not None:
            self._leave()
            self._leave = None

    async def close(self) -> None:
        """End it and what runs in it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._resting is not None:
            await asyncio.wait({self._resting})
        self._session.interrupt(at_once=True)
        await self._session.close()
        self._stay = None  # what ends only now begins no rest
        self._forget()

    async def _prepare(self) -> Envelope | None:
        """A new kernel's variables, imports, and pictures outside the project. Returns the outcome only if it failed.

        Raises InputError when the folder of packages is gone and cannot be made.
        """
        if self._prepared:
            return None
        await asyncio.to_thread(self._home.make_packages)
        code = preparation(self._home.kernel_variables, *self._home.calls)
        envelope = await interruptible(self._session, CodeRequest(code=code.encode()), at_once=False)
        if envelope.error is not None:
            failed = CellText(text=f"{envelope.error.type}: {envelope.error.message}", failed=True)
            return replace(envelope, data=failed.to_json())
        self._prepared = True
        return None

    async def _text(self, envelope: Envelope, printed: str, timeout_s: float | None) -> CellText:
        result = result_of(envelope)
        if (failure := failure_of(result, timeout_s)) is not None:
            parts = [printed.rstrip(), "" if failure.text in printed else failure.text]
            return CellText(text="\n".join(filter(None, parts)), failed=True)
        text = (printed + shown_text(result)).strip()
        try:
            pictures = await asyncio.to_thread(self._home.keep_pictures, result)
        except OSError as error:  # code may have put something else there
            why = f"The images cannot be saved in images/: {error.strerror}"
            return CellText(text=f"{text}\n\n{why}".strip(), failed=True)
        if pictures:
            text += "\n\nGenerated images:\n\n" + "".join(f"- [{name}]({path})\n" for name, path in pictures)
        return CellText(text=text, failed=False)


def _too_long(text: str) -> str:
    return f"of {len(text):,} characters; print less, or keep it in a variable or a file and print parts of it"
