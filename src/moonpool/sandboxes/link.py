"""The host's end of one sandbox: channel, two pipes and a pidfd, on the event loop.

Reads are driven by the loop; nothing here waits. The order that a `GuestSink` is promised is kept in one place
(`_drain_pipes` before every message). In one turn of the loop a few frames of each sandbox are handled, so that its
neighbours' come in between, whatever was read at once. Writes never block: what the guest does not read is queued, and
a guest that lets too much pile up is discarded. A pipe that nobody hears is read until a little is kept (`Backlog`),
then no more: what the guest writes beyond that waits in the pipe, and so does who writes it, until somebody is
attached.

SECURITY: the guest's bytes pass `Channel` (sizes, states), `decode_guest` (types, bounds) and a token bucket. A
violation ends the sandbox and is reported in its outcome. The channel is read with recv(), never recvmsg(): the Linux
kernel drops descriptors that a guest attaches.
INVARIANT: bytes that were read are handled, also when a sink raises: half a frame lost would make the next one an
honest guest's violation.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, ParamSpec

from moonpool.sandboxes.backlog import Backlog
from moonpool.sandboxes.base import ExitCause, ExitOutcome
from moonpool.sandboxes.messages import (
    InvalidMessage,
    KernelEnded,
    Output,
    TakeCheckpoint,
    check_body,
    decode_guest,
    decode_host,
    encode,
)
from moonpool.sandboxes.unread_budget import UnreadBudget
from moonpool_wire.channel import Channel, Message
from moonpool_wire.frames import WireError, restart_mark
from moonpool_wire.limits import (
    BLOB_BYTES_MAX_TO_HOST,
    FRAMES_BURST_MAX,
    FRAMES_PER_SECOND_MAX,
    MESSAGES_BURST_MAX,
    MESSAGES_PER_SECOND_MAX,
    RECEIVED_BYTES_BURST_MAX,
    RECEIVED_BYTES_PER_SECOND_MAX,
    REFUSED_CALL_BYTES,
    REFUSED_CALL_UNITS_MAX,
    REFUSED_CALLS_BURST_MAX,
    REFUSED_CALLS_PER_SECOND_MAX,
)
from moonpool_wire.ratelimit import TokenBucket

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from moonpool.sandboxes.base import GuestSink, Stream
    from moonpool.sandboxes.messages import HostMessage

_What = ParamSpec("_What")

_READ_BYTES = 65_536  # a whole pipe; below malloc's mmap threshold, so that a read costs one system call
FRAMES_PER_TURN_MAX = 32  # a call costs the loop up to 0.3 ms, so a neighbour waits 10 ms for each that floods
_PIPE_BYTES_MAX = 1_048_576  # the Linux kernel's pipe-max-size for an ordinary process
_UNREAD_BYTES_MAX = 160 * 1024 * 1024  # two of the largest results; more means the guest does not read
_QUEUED_BYTES_MAX = 512 * 1024 * 1024  # blobs without credit: many calls at once may return much before the guest reads
_LAST_SIGNAL = 64
_CLOSED_GRACE_S = 3.0  # between the end of the channel and the end of the process: freeing its memory takes time


def _no_owner_yet() -> None:
    """The sandbox takes its link over before the loop reads the first byte."""


class GuestLink:
    """Owns the descriptors of one sandbox and turns their bytes into calls on the attached sink."""

    def __init__(
        self,
        channel_socket: socket.socket,
        pipes: dict[Stream, int],
        *,
        unread: UnreadBudget | None = None,
        scope: str = "default",
    ) -> None:
        self.scope = scope  # the tenant, for the budget
        self._loop = asyncio.get_running_loop()
        self._socket = channel_socket
        self._socket.setblocking(False)
        self._fd = channel_socket.fileno()
        self._pipes = dict(pipes)
        self._channel = Channel(blob_bytes_max=BLOB_BYTES_MAX_TO_HOST)
        self._frames = TokenBucket(rate=FRAMES_PER_SECOND_MAX, burst=FRAMES_BURST_MAX)
        self._messages = TokenBucket(rate=MESSAGES_PER_SECOND_MAX, burst=MESSAGES_BURST_MAX)
        self._bytes = TokenBucket(rate=RECEIVED_BYTES_PER_SECOND_MAX, burst=RECEIVED_BYTES_BURST_MAX)
        self._refused = TokenBucket(rate=REFUSED_CALLS_PER_SECOND_MAX, burst=REFUSED_CALLS_BURST_MAX)
        self._unsent = bytearray()
        self._mark = b""  # behind which another process of the guest goes on; empty where none can
        self._tail = b""  # what was read last, which may end in the beginning of a mark
        self._behind: bytes | None = None  # a mark was found: what was read behind it
        self._is_anew = False  # nothing was heard since
        self._unread = unread or UnreadBudget()
        self._sink: GuestSink = Backlog()
        self.on_violation: Callable[[], None] = _no_owner_yet  # SECURITY: the sandbox sets what ends it
        self.violation: str | None = None
        self._channel_open = True
        self._outcome: ExitOutcome | None = None
        self._expecting: asyncio.TimerHandle | None = None  # that the process ends, once it has closed its channel
        self._rest_until = 0.0  # nothing more is handled before
        self._reads = True  # the channel; else `_go_on` is scheduled
        self._loop.add_reader(self._fd, self._on_channel)
        self._has_pipes = bool(pipes)
        self._hears = False  # whether the pipes are read
        for fd in self._pipes.values():
            os.set_blocking(fd, False)
        self._read_or_pause()

    def attach(self, sink: GuestSink) -> None:
        """Deliver to `sink` from now on, what was kept meanwhile first."""
        previous, self._sink = self._sink, sink
        if isinstance(previous, Backlog):
            previous.replay(sink)
        elif self._outcome is not None:
            sink.on_exit(self._outcome)
        self._read_or_pause()

    def detach(self) -> None:
        """Keep what comes for the next owner. Idempotent: what was kept already stays."""
        self.attach(Backlog())

    def count_refused_call(self, size: int) -> None:
        """A call with arguments of `size` bytes was refused, which cost the host more than the guest: above some of
        these its channel is read later.
        """
        units = min(1 + size // REFUSED_CALL_BYTES, REFUSED_CALL_UNITS_MAX)
        wait_s = self._refused.take(units, self._loop.time())
        if wait_s > 0 and self._channel_open:
            self._rest(wait_s)

    @property
    def hears_pipes(self) -> bool:
        """Whether what the guest writes is read now; else it waits in the pipes."""
        return self._hears

    def _read_or_pause(self) -> None:
        """Read the pipes unless whoever hears them keeps no more."""
        hears = not (isinstance(self._sink, Backlog) and self._sink.is_full)
        if hears is not self._hears:
            self._hears = hears
            for stream, fd in self._pipes.items():
                if hears:
                    self._loop.add_reader(fd, self._drain_pipe, stream)
                else:
                    self._loop.remove_reader(fd)

    # --- to the guest

    def send(self, message: HostMessage, body: bytes = b"") -> None:
        """Queue a message; a guest that is gone or broken swallows it."""
        if not self._channel_open:
            return
        if isinstance(message, TakeCheckpoint) and message.token:
            self._mark = restart_mark(message.token)
        self._channel.send(encode(message), body)
        self._write(self._channel.data_to_send())
        if self._channel.unsent_bytes > _QUEUED_BYTES_MAX:
            self._violate("it does not read what it is sent")
        self._count_unread()

    def _count_unread(self) -> None:
        if self._channel_open:
            self._unread.hold(self, len(self._unsent) + self._channel.unsent_bytes)

    def give_up(self) -> None:
        """End the sandbox: the host holds too much for all together, and it is this one's turn (`unread_budget`)."""
        self._violate("it does not read what it is sent, and the host holds too much for all sandboxes together")

    def _write(self, data: bytes) -> None:
        if not data or not self._channel_open:
            return
        if self._unsent:
            self._unsent += data
            if len(self._unsent) > _UNREAD_BYTES_MAX:
                self._violate("it does not read what it is sent")
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close_channel()
            return
        if sent < len(data):
            self._unsent += memoryview(data)[sent:]
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_writable(self) -> None:
        try:
            sent = self._socket.send(memoryview(self._unsent)[:_READ_BYTES])
        except BlockingIOError:
            return
        except OSError:
            self._close_channel()
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._fd)
        self._count_unread()

    # --- from the guest

    def _on_channel(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close_channel()
            self._expecting = self._loop.call_later(_CLOSED_GRACE_S, self._expect_end)
            return
        self._drain_pipes()
        self._take_turn(self._before_mark(data))

    def _before_mark(self, data: bytes) -> bytes:
        """What was sent before a mark, if there is one in `data`."""
        if not self._mark:
            return data
        seen = self._tail + data
        at = seen.find(self._mark)
        if at < 0:
            self._tail = seen[-len(self._mark) + 1 :]
            return data
        known, self._tail = len(self._tail), b""
        self._behind = seen[at + len(self._mark) :]
        return data[: max(0, at - known)]

    def _begin_anew(self, behind: bytes) -> None:
        """Another process of the guest has the channel: drop the frames that its predecessor left half done.

        INVARIANT: our numbers of blobs go on: a process from before, which an undo wakes up, knows those that it heard.
        """
        self._behind, self._is_anew = None, True
        blobs_sent = self._channel.blobs_sent
        self._channel = Channel(blob_bytes_max=BLOB_BYTES_MAX_TO_HOST)
        self._channel.blobs_sent = blobs_sent
        if self._unsent:
            self._unsent.clear()
            self._loop.remove_writer(self._fd)
        self._write(self._mark)
        self._take_turn(behind)

    def _take_turn(self, data: bytes) -> None:
        """Handle a few frames. SECURITY: more at once and neighbours would wait for all that one guest says."""
        frames_before = self._channel.frames_received
        try:
            events = self._channel.receive(data, FRAMES_PER_TURN_MAX)
            for event in events:
                if isinstance(event, Message):
                    self._hand_over(event)
                else:
                    self._tell(self._sink.on_refused, decode_host(event.head))
        except (WireError, InvalidMessage) as error:
            self._violate(str(error))
            return
        self._write(self._channel.data_to_send())
        self._count_unread()
        self._slow_down(self._channel.frames_received - frames_before, len(events), len(data))

    def _hand_over(self, event: Message) -> None:
        message = decode_guest(event.head)
        check_body(message, event.body)
        first, self._is_anew = self._is_anew, False
        if isinstance(message, KernelEnded):
            if not first:
                raise InvalidMessage("it said that the process had ended which said so")
            if isinstance(self._sink, Backlog):  # while no code runs nobody goes on: the sandbox ends with its kernel
                self.on_violation()
                return
        if isinstance(message, Output) and self._has_pipes:  # SECURITY: it costs more there, and no pipe ever fills
            raise InvalidMessage("it sent output as a message, though it has pipes")
        self._tell(self._sink.on_message, message, event.body)

    def _tell(self, hear: Callable[_What, None], *what: _What.args, **named: _What.kwargs) -> None:
        """What a sink raises is a bug of ours, which is no reason to lose what was read after it."""
        try:
            hear(*what, **named)
        except Exception as error:  # noqa: BLE001
            context = {
                "message": "output of a sandbox was not delivered; this is a bug in Moonpool",
                "exception": error,
            }
            self._loop.call_exception_handler(context)

    def _slow_down(self, frames: int, messages: int, size: int) -> None:
        """Back-pressure: a guest that sends too much waits, its neighbours do not notice.

        SECURITY: frames, messages, bytes and refused calls are counted apart, because they cost the loop different
        things: a chunk is copied, a message is decoded, every byte is hashed, a refused call enters the pipeline.
        """
        if not self._channel_open:
            return
        now = self._loop.time()
        wait_s = max(
            self._frames.take(max(1, frames), now), self._messages.take(messages, now), self._bytes.take(size, now)
        )
        if wait_s > 0 or self._channel.has_frames or self._behind is not None:
            self._rest(wait_s)

    def _rest(self, wait_s: float) -> None:
        """Handle nothing more of the channel for so long, and at least until the loop's next turn."""
        self._rest_until = max(self._rest_until, self._loop.time() + wait_s)
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._fd)
            self._loop.call_soon(self._go_on)

    def _expect_end(self) -> None:
        """A process that ends closes its channel; one that only closes the channel could never be heard again."""
        if self._outcome is None:
            self._violate("it closed the channel but did not exit")

    def _go_on(self) -> None:
        if not self._channel_open:
            return
        wait_s = self._rest_until - self._loop.time()
        if wait_s <= 0 and self._channel.has_frames:
            self._take_turn(b"")
        elif wait_s <= 0 and self._behind is not None:
            self._begin_anew(self._behind)
        elif wait_s <= 0:
            self._reads = True
            self._loop.add_reader(self._fd, self._on_channel)
            return
        self._loop.call_later(max(0.0, wait_s), self._go_on)

    def _drain_pipes(self) -> None:
        """Deliver all that was written before now. A pipe holds 64 KiB, or 1 MiB at most if the guest enlarged it."""
        for stream in tuple(self._pipes):
            for _ in range(_PIPE_BYTES_MAX // _READ_BYTES):
                if self._drain_pipe(stream) < _READ_BYTES:
                    break

    def _drain_pipe(self, stream: Stream) -> int:
        """Read once and deliver. Return how many bytes there were: none while the pipes are not read."""
        fd = self._pipes.get(stream)
        if fd is None or not self._hears:
            return 0
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if data:
            self._tell(self._sink.on_output, stream, data)
            self._read_or_pause()
        else:
            self._close_pipe(stream)
        return len(data)

    def _violate(self, reason: str) -> None:
        if self.violation is None:
            self.violation = f"the code in the sandbox broke the channel's protocol: {reason}"
            self._close_channel()
            self.on_violation()

    # --- the end

    def end(self, outcome: ExitOutcome) -> None:
        """Deliver everything readable, then the end. Called once the process is gone.

        What waits in a pipe that is not read is lost with it.
        """
        if self._outcome is not None:
            return
        self._outcome = outcome
        if self._expecting is not None:
            self._expecting.cancel()
        if self._channel_open:
            self._read_channel_to_end()
        self._drain_pipes()
        sink = self._sink
        self.close()
        self._tell(sink.on_exit, outcome)

    def _read_channel_to_end(self) -> None:
        """Read until the socket is empty or closed; the peer is gone, so this ends."""
        data = b""  # first what was read already and waits for its turn
        for _ in range(1024):
            try:
                for event in self._channel.receive(self._before_mark(data)):
                    if isinstance(event, Message):
                        self._hand_over(event)
                if self._behind is not None:
                    break
                data = self._socket.recv(_READ_BYTES)
            except (OSError, WireError, InvalidMessage):
                break  # a half-written frame of a process that was killed
            if not data:
                break
            self._drain_pipes()
        self._close_channel()

    def close(self) -> None:
        """Give back every descriptor."""
        self._close_channel()
        for stream in tuple(self._pipes):
            self._close_pipe(stream)

    def _close_channel(self) -> None:
        if self._channel_open:
            self._channel_open = False
            if self._reads:
                self._loop.remove_reader(self._fd)
            if self._unsent:
                self._loop.remove_writer(self._fd)
                self._unsent = bytearray()
            self._unread.hold(self, 0)
            self._socket.close()

    def _close_pipe(self, stream: Stream) -> None:
        fd = self._pipes.pop(stream, None)
        if fd is not None:
            self._loop.remove_reader(fd)
            os.close(fd)


def outcome_of(status: int, *, killed: bool, violation: str | None) -> ExitOutcome:
    """Translate a wait status. `killed` says that the host asked for the end.

    An exit code of 128 and the number of a signal counts as that signal: PID 1 cannot end by one that comes from inside
    (`moonpool_guest.python.own_signals`), and bubblewrap tells both alike.
    """
    signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    if code is not None and 0 < code - 128 <= _LAST_SIGNAL:
        signal, code = code - 128, None
    cause = ExitCause.EXITED if signal is None else ExitCause.SIGNALLED
    if killed or violation:
        cause = ExitCause.KILLED
    return ExitOutcome(cause=cause, exit_code=code, signal=signal, violation=violation)
