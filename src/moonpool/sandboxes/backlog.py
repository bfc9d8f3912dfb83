"""What a sandbox says while nobody hears it: a little is kept for its next owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moonpool.sandboxes.base import ExitOutcome, GuestSink, Stream
    from moonpool.sandboxes.messages import GuestMessage, HostMessage

_OUTPUT_BYTES_MAX: Final = 64 * 1024  # of both streams together; the read that reaches it is kept whole
_MESSAGES_MAX: Final = 16
_BODY_BYTES_MAX: Final = 64 * 1024


class Backlog:
    """Stands in while nobody is attached: keeps a little of what comes, for the next owner.

    SECURITY: while it is full the pipes are not read, or code that goes on between executions could keep the loop busy
    with bytes that nobody will see.
    """

    def __init__(self) -> None:
        self.output: list[tuple[Stream, bytes]] = []
        self.kept_bytes = 0
        self.messages: list[tuple[GuestMessage, bytes]] = []
        self.ended: ExitOutcome | None = None

    @property
    def is_full(self) -> bool:
        """Whether it keeps no more output."""
        return self.kept_bytes >= _OUTPUT_BYTES_MAX

    def on_output(self, stream: Stream, data: bytes) -> None:
        if not self.is_full:  # whole, so that nothing is missing before what the next owner reads from the pipe
            self.output.append((stream, data))
            self.kept_bytes += len(data)

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        if len(self.messages) < _MESSAGES_MAX and len(body) <= _BODY_BYTES_MAX:
            self.messages.append((message, body))

    def on_refused(self, message: HostMessage) -> None:
        del message

    def on_exit(self, outcome: ExitOutcome) -> None:
        self.ended = outcome

    def replay(self, sink: GuestSink) -> None:
        for stream, data in self.output:
            sink.on_output(stream, data)
        for message, body in self.messages:
            sink.on_message(message, body)
        if self.ended is not None:
            sink.on_exit(self.ended)
