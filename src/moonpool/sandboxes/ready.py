"""Waiting for a fresh sandbox to say that it is READY, and for its rehearsal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.sandboxes.base import ExitOutcome, SandboxStartError
from moonpool.sandboxes.messages import Done, Execute, Failed, Ready
from moonpool_wire.limits import PROTOCOL_VERSION

if TYPE_CHECKING:
    from typing import Protocol

    from moonpool.sandboxes.base import GuestSink, Stream
    from moonpool.sandboxes.messages import GuestMessage, HostMessage

    class Attachable(Protocol):
        """The part of a sandbox that the wait needs."""

        def attach(self, sink: GuestSink) -> None: ...
        def detach(self) -> None: ...
        def send(self, message: HostMessage, body: bytes = b"") -> None: ...


_READY_TIMEOUT_S = 30.0  # not how long starts take: more than 10 s were seen while attacks filled both cores
_REHEARSALS = {"python": b"result = 1 + 1", "node": b"globalThis.result = 2", "bash": b":"}


class _FirstWord:
    """Hears the first message only. `kind` is what it should be."""

    def __init__(self, kind: type[Ready | Done]) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._kind = kind
        self._stderr = b""

    def on_output(self, stream: Stream, data: bytes) -> None:
        del stream
        self._stderr = (self._stderr + data)[-2000:]

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        del body
        if self.ready.done():
            return
        fits = not isinstance(message, Ready) or message.protocol == PROTOCOL_VERSION
        if isinstance(message, Done) and message.error is not None:
            self.ready.set_exception(SandboxStartError(step="rehearsal", reason=message.error.message[:500]))
        elif isinstance(message, self._kind) and fits:
            self.ready.set_result(None)
        elif isinstance(message, Failed):
            self.ready.set_exception(SandboxStartError(step=message.step, reason=message.message))
        else:
            self.ready.set_exception(SandboxStartError(step="ready", reason="the kernel speaks another protocol"))

    def on_refused(self, message: HostMessage) -> None:
        del message

    def on_exit(self, outcome: ExitOutcome) -> None:
        if not self.ready.done():
            words = self._stderr.decode(errors="replace").strip().splitlines()
            reason = words[-1] if words else f"it ended at once ({outcome.cause}, status {outcome.exit_code})"
            self.ready.set_exception(SandboxStartError(step="ready", reason=reason))


async def wait_ready(sandbox: Attachable) -> None:
    """Return when the kernel waits for code. Raises SandboxStartError with the failing step."""
    await _first_word(sandbox, _FirstWord(Ready))


async def rehearse(sandbox: Attachable, language: str = "python") -> None:
    """Let a fresh kernel run nothing once, so that the pages an execution touches are its own before anybody waits.

    A forked process pays some hundred page faults, 2 us each, at its first execution; a kernel of another language is
    started. Leaves no trace in its namespace. Raises SandboxStartError, also when that language is not there.
    """
    order = Execute(
        run="rehearsal",
        name="<rehearsal>",
        manifest="",
        final=False,
        result_bytes_max=1024,
        language=language,
        rehearse=True,
    )
    await _first_word(sandbox, _FirstWord(Done), order, _REHEARSALS[language])


async def _first_word(sandbox: Attachable, sink: _FirstWord, order: Execute | None = None, code: bytes = b"") -> None:
    sandbox.attach(sink)
    if order is not None:
        sandbox.send(order, code)
    try:
        async with asyncio.timeout(_READY_TIMEOUT_S):
            await sink.ready
    except TimeoutError as error:
        raise SandboxStartError(step="ready", reason=f"the kernel said nothing for {_READY_TIMEOUT_S:.0f} s") from error
    sandbox.detach()
