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
    """Hears the first message only. `kind` is what it should be, `step` what errors call the wait for it."""

    def __init__(self, kind: type[Ready | Done], step: str) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.step = step
        self._kind = kind
        self._stderr = b""

    def on_output(self, stream: Stream, data: bytes) -> None:
        del stream
        self._stderr = (self._stderr + data)[-2000:]

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        del body
        if self.ready.done():
            return
        if isinstance(message, Failed):
            self._refuse(message.message, step=message.step)
        elif not isinstance(message, self._kind):
            self._refuse(f"the kernel said {_word(type(message))} instead of {_word(self._kind)}")
        elif isinstance(message, Ready) and message.protocol != PROTOCOL_VERSION:
            self._refuse("the kernel speaks another protocol")
        elif isinstance(message, Done) and message.error is not None:
            self._refuse(message.error.message[:500])
        else:
            self.ready.set_result(None)

    def _refuse(self, reason: str, *, step: str | None = None) -> None:
        self.ready.set_exception(SandboxStartError(step=step or self.step, reason=reason))

    def give_up(self) -> None:
        """It took too long."""
        if not self.ready.done():
            self._refuse(f"the kernel said nothing for {_READY_TIMEOUT_S:.0f} s", step=self.step)

    def on_refused(self, message: HostMessage) -> None:
        del message

    def on_exit(self, outcome: ExitOutcome) -> None:
        if not self.ready.done():
            words = self._stderr.decode(errors="replace").strip().splitlines()
            reason = words[-1] if words else f"it ended at once ({outcome.cause}, status {outcome.exit_code})"
            self._refuse(reason)


def _word(kind: type[GuestMessage]) -> str:
    """What such a message is called on the channel."""
    return repr(kind.__struct_config__.tag)


async def wait_ready(sandbox: Attachable) -> None:
    """Return when the kernel waits for code. Raises SandboxStartError with the failing step."""
    await _first_word(sandbox, _FirstWord(Ready, "ready"))


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
    await _first_word(sandbox, _FirstWord(Done, "rehearsal"), order, _REHEARSALS[language])


async def _first_word(sandbox: Attachable, sink: _FirstWord, order: Execute | None = None, code: bytes = b"") -> None:
    sandbox.attach(sink)
    if order is not None and not sink.ready.done():  # it may have ended, and say so at once
        sandbox.send(order, code)
    timer = asyncio.get_running_loop().call_later(_READY_TIMEOUT_S, sink.give_up)
    try:
        await sink.ready
    finally:
        timer.cancel()
    sandbox.detach()
