"""Waiting for a fresh sandbox to say that it is READY."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.sandboxes.base import ExitOutcome, SandboxStartError
from moonpool.sandboxes.messages import Failed, Ready
from moonpool_wire.limits import PROTOCOL_VERSION

if TYPE_CHECKING:
    from typing import Protocol

    from moonpool.sandboxes.base import GuestSink, Stream
    from moonpool.sandboxes.messages import GuestMessage, HostMessage

    class Attachable(Protocol):
        """The part of a sandbox that the wait needs."""

        def attach(self, sink: GuestSink) -> None: ...
        def detach(self) -> None: ...


_READY_TIMEOUT_S = 10.0


class _ReadySink:
    """Hears the first message only."""

    def __init__(self) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stderr = b""

    def on_output(self, stream: Stream, data: bytes) -> None:
        del stream
        self._stderr = (self._stderr + data)[-2000:]

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        del body
        if self.ready.done():
            return
        if isinstance(message, Ready) and message.protocol == PROTOCOL_VERSION:
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
    sink = _ReadySink()
    sandbox.attach(sink)
    try:
        await asyncio.wait_for(sink.ready, _READY_TIMEOUT_S)
    except TimeoutError as error:
        raise SandboxStartError(step="ready", reason=f"the kernel said nothing for {_READY_TIMEOUT_S:.0f} s") from error
    sandbox.detach()
