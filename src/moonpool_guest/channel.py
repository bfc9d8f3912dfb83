"""The guest's end of the channel: one socket, many callers, no service thread.

Whoever waits reads. A caller registers a `Waiter` for the id it expects and waits for it: asynchronously (the loop
watches the descriptor) or synchronously (the thread polls). Whoever finds bytes hands each message to its owner, under
one lock. So sync calls work inside a running loop, hundreds of async calls run at once, and threads do not get in each
other's way.

Which of several waiting threads polls the socket is `waiters.Turns`. An event descriptor lets another reader, e.g. a
loop in another thread, wake it. What holds back interrupts meanwhile is `hold`.

INVARIANT: used only in the process that made it. After a fork the child shares the socket but not the state; mixing the
two streams would break both, so every call from another pid fails (`ChannelGoneError`).
"""

import asyncio
import collections
import json
import os
import select
import socket
import threading
from typing import Any

from moonpool_guest.hold import Guard, Hold
from moonpool_guest.waiters import Turns, Waiter
from moonpool_wire.channel import BlobRefused, Channel, Message
from moonpool_wire.frames import WireError

_READ_BYTES = 65536  # below malloc's mmap threshold: a larger buffer costs two system calls and page faults per read
_LOOK_AGAIN_MS = 100
_EVENT_FLAGS = os.EFD_CLOEXEC | os.EFD_NONBLOCK
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder()


class ChannelGoneError(Exception):
    """The channel cannot be used from here: another process, or the host has closed it."""


class GuestChannel:
    """Sends messages and waits for answers. `control` messages (those without a waiter) queue for the kernel.

    Made in the zygote and opened in the sandbox: what is made there is shared memory here.
    """

    def __init__(self, *, blob_bytes_max: int) -> None:
        self._socket: socket.socket
        self._fd = self._event_fd = self._pid = -1
        self._blob_bytes_max = blob_bytes_max
        self._channel = Channel(blob_bytes_max=blob_bytes_max)
        self.hold = Hold()
        self._lock = Guard(self.hold)
        self._waiters: dict[int, Waiter] = {}
        self._turns = Turns()
        self._loops: dict[asyncio.AbstractEventLoop, int] = {}
        self._control: collections.deque[tuple[dict[str, Any], bytes]] = collections.deque()
        self._control_waiter: Waiter | None = None
        self._closed = False

    def open(self, fd: int) -> None:
        """Take over `fd`, the guest's end of a Unix stream. From now on only this process may use the channel."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
        self._socket.setblocking(False)
        self._fd = fd
        self._pid = os.getpid()
        self._event_fd = self.hold.event_fd = os.eventfd(0, _EVENT_FLAGS)

    def move(self, blobs_sent: int) -> None:
        """Go on in this process, which was forked from the one that used the channel and takes its place.

        `blobs_sent` is what that one had last, perhaps more than there were at the fork.
        """
        os.close(self.event_fd)
        self._channel.blobs_sent = blobs_sent
        self._pid = os.getpid()
        self._event_fd = self.hold.event_fd = os.eventfd(0, _EVENT_FLAGS)

    def renew(self) -> None:
        """Forget all frames, in both directions: the host does so at a mark."""
        self._channel = Channel(blob_bytes_max=self._blob_bytes_max)

    def begin_anew(self, mark: bytes, head: "dict[str, Any]") -> None:
        """Take the channel back from a process that has ended, perhaps in the middle of a frame, and send a message.

        Both sides send `mark`, and drop what they were sent before it. Waits for the host's. Raises ChannelGoneError.
        """
        self.renew()
        self._channel.send(_encode(head))
        unsent, seen, at = memoryview(mark + self._channel.data_to_send()), b"", -1
        poll = select.poll()
        while unsent or at < 0:
            poll.register(self._fd, select.POLLIN | (select.POLLOUT if unsent else 0))
            poll.poll()
            try:
                unsent = unsent[self._socket.send(unsent) :] if unsent else unsent
            except BlockingIOError:
                pass
            except OSError as error:
                raise ChannelGoneError("the host has closed the channel") from error
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                raise ChannelGoneError("the host has closed the channel")
            seen = (seen if at >= 0 else seen[-len(mark) + 1 :]) + data
            at = seen.find(mark)
        for event in self._channel.receive(seen[at + len(mark) :]):
            self._hand_out(event)

    @property
    def blobs_sent(self) -> int:
        """How many blobs went out so far: each has the next number."""
        return self._channel.blobs_sent

    @property
    def event_fd(self) -> int:
        """The descriptor that wakes a reader."""
        return self._event_fd

    def close(self) -> None:
        """Give back the descriptors, in a process that lives on."""
        self._socket.close()
        os.close(self._event_fd)

    # --- sending

    def send(self, head: "dict[str, Any]", body: bytes = b"", *, more: bool = False) -> None:
        """Queue a message and write what the socket takes, waiting for room where it must.

        `more`: another one follows at once; both may go out together.
        """
        self._check()
        with self._lock:
            self._channel.send(_encode(head), body)
            if not more or self._channel.unsent_bytes:
                self._flush()

    def request(self, head: "dict[str, Any]", body: bytes) -> Waiter:
        """Send a request whose `id` the answer will repeat; return the waiter for that answer."""
        self._check()
        waiter = Waiter()
        with self._lock:
            if self._closed:
                raise ChannelGoneError("the host has closed the channel")
            self._waiters[int(head["id"])] = waiter
            self._channel.send(_encode(head), body)
            self._flush()
        return waiter

    def wait_sent(self) -> None:
        """Wait until no blob waits for credits any more, which a smaller message would pass."""
        if not self._channel.unsent_bytes:
            return
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        while self._channel.unsent_bytes and not self._closed:
            poll.poll(_LOOK_AGAIN_MS)  # another thread may read the credit that this one waits for
            self._read_and_answer()

    def forget(self, request_id: int) -> None:
        """Nobody waits for this id any more; its answer is dropped when it comes."""
        with self._lock:
            self._waiters.pop(request_id, None)

    def _flush(self) -> None:
        """Write everything queued. Called with the lock held; reading goes on, so two full buffers cannot deadlock."""
        pending = memoryview(self._channel.data_to_send())
        while pending:
            try:
                pending = pending[self._socket.send(pending) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._fd, select.POLLOUT | select.POLLIN)
                for _, events in poll.poll():
                    if events & ~select.POLLOUT:
                        pending = memoryview(bytes(pending) + self._read())
            except OSError as error:
                self._close()
                raise ChannelGoneError("the host has closed the channel") from error

    # --- receiving

    def wait(self, waiter: Waiter) -> None:
        """Block this thread until `waiter` is done. Raises ChannelGoneError when the host closes the channel."""
        with self.hold:
            while not (waiter.done or self.hold.interrupted):
                self._lead_or_follow(waiter)

    def _lead_or_follow(self, waiter: Waiter) -> None:
        with self._lock:
            if self._closed:
                raise ChannelGoneError("the host has closed the channel")
            if waiter.done:
                return
            wake = self._turns.enter(waiter)
        try:
            if wake is None:
                self._poll_until(waiter)
            else:
                self._sleep_until(wake)
        finally:
            with self._lock:
                self._turns.leave(waiter, all_awake=self._closed)

    def _sleep_until(self, wake: threading.Lock) -> None:
        if threading.current_thread() is not threading.main_thread():
            wake.acquire()
            return
        self.hold.sleeping_on = wake
        if not self.hold.interrupted:  # a signal from here on releases the lock
            wake.acquire()
        self.hold.sleeping_on = None

    def _poll_until(self, waiter: Waiter) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._event_fd, select.POLLIN)
        while not (waiter.done or self._closed or self.hold.interrupted):
            for fd, _ in poll.poll():
                if fd == self._event_fd:
                    _drain_event(self._event_fd)
                else:
                    self._read_and_answer()

    async def wait_async(self, waiter: Waiter) -> None:
        """Wait in a running loop until `waiter` is done. Raises ChannelGoneError when the host closes the channel."""
        loop = asyncio.get_running_loop()
        watching = False
        try:
            with self._lock:
                if waiter.done:
                    return
                if self._closed:
                    raise ChannelGoneError("the host has closed the channel")
                waiter.loop, waiter.future = loop, loop.create_future()
                self._watch(loop)
                watching = True
            await waiter.future
        finally:
            if watching:
                with self._lock:
                    self._unwatch(loop)
        if not waiter.done:
            raise ChannelGoneError("the host has closed the channel")

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._loops:
            loop.add_reader(self._fd, self._read_and_answer)
        self._loops[loop] = self._loops.get(loop, 0) + 1

    def _unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loops[loop] -= 1
        if not self._loops[loop]:
            del self._loops[loop]
            if not loop.is_closed():
                loop.remove_reader(self._fd)

    def wait_control(self) -> "tuple[dict[str, Any], bytes]":
        """Wait for a message that answers no request: the kernel's own orders.

        Only the kernel's main thread calls it.
        """
        while True:
            with self._lock:
                if self._control:
                    return self._control.popleft()
                waiter = self._control_waiter = Waiter()
            self.wait(waiter)

    def _read_and_answer(self) -> None:
        with self._lock:
            answer = self._read()
            if answer and not self._closed:
                self._channel_flush_answer(answer)

    def _channel_flush_answer(self, answer: bytes) -> None:
        """Write credits and refusals that reading caused."""
        pending = memoryview(answer)
        while pending:
            try:
                pending = pending[self._socket.send(pending) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._fd, select.POLLOUT)
                poll.poll()
            except OSError:
                self._close()
                return

    def _read(self) -> bytes:
        """Read what is there and hand it out. Called with the lock held. Return the bytes that must be written."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._close()
            return b""
        try:
            events = self._channel.receive(data)
        except WireError:
            self._close()
            return b""
        for event in events:
            self._hand_out(event)
        return self._channel.data_to_send()

    def _hand_out(self, event: "Message | BlobRefused") -> None:
        head: dict[str, Any] = _DECODER.raw_decode(event.head.decode())[0]
        waiter = self._waiters.pop(head["id"], None) if "id" in head else None
        if waiter is not None:
            waiter.answer(event)
            self._finish(waiter)
        elif isinstance(event, Message) and "id" not in head:
            self._control.append((head, event.body))
            if self._control_waiter is not None:
                self._finish(self._control_waiter)

    def _finish(self, waiter: Waiter) -> None:
        waiter.done = True
        self._rouse(waiter)

    def _rouse(self, waiter: Waiter) -> None:
        if not waiter.rouse():
            os.eventfd_write(self._event_fd, 1)

    def _close(self) -> None:
        self._closed = True
        for waiter in [*self._waiters.values(), *([self._control_waiter] if self._control_waiter else [])]:
            self._rouse(waiter)
        self._waiters.clear()
        self._turns.wake_next(all_awake=True)
        os.eventfd_write(self._event_fd, 1)

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ChannelGoneError(
                "tool calls work only in the process that runs the code, not in a forked child; "
                "make the call in the parent, or use threads or asyncio"
            )


def _encode(head: "dict[str, Any]") -> bytes:
    return _ENCODER.encode(head).encode("utf-8", "replace")


def _drain_event(fd: int) -> None:
    try:
        os.eventfd_read(fd)
    except BlockingIOError:
        pass  # another thread was faster
