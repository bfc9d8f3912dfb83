"""Those who wait for a message, and who of them reads.

Among waiting threads one is the leader and polls the socket; the others sleep on a lock of their own. A leader that got
its answer wakes the next. Tasks of a loop do not sleep here: their loop watches the socket.
"""

import asyncio
import threading

from moonpool_wire.channel import BlobRefused, Message


class Waiter:
    """One caller's expectation of one message. `message` is set exactly once, or `refused` is."""

    __slots__ = ("done", "future", "loop", "message", "refused", "wake")

    def __init__(self) -> None:
        self.done = False
        self.message: Message | None = None
        self.refused = False
        self.wake: threading.Lock | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[None] | None = None

    def answer(self, event: "Message | BlobRefused") -> None:
        """Keep what came. Whoever calls this rouses the waiter."""
        self.refused = isinstance(event, BlobRefused)
        self.message = event if isinstance(event, Message) else None

    def rouse(self) -> bool:
        """Wake the task or the sleeping thread. False when it is a thread that polls, or that is on its way."""
        if self.future is not None and self.loop is not None:
            try:
                self.loop.call_soon_threadsafe(_settle, self.future)
            except RuntimeError:
                pass  # its loop is closed; nobody waits there any more
        elif self.wake is None:
            return False
        elif self.wake.locked():
            self.wake.release()
        return True


class Turns:
    """Which thread polls, and which sleep meanwhile. Used with the channel's lock held."""

    def __init__(self) -> None:
        self._leader: int | None = None  # ident of the thread that polls
        self._followers: dict[int, Waiter] = {}

    def enter(self, waiter: Waiter) -> "threading.Lock | None":
        """Take this thread's turn: None makes it the leader, a locked lock is what it has to sleep on."""
        me = threading.get_ident()
        if self._leader in (None, me):
            self._leader = me
            return None
        wake = waiter.wake = threading.Lock()
        wake.acquire()
        self._followers[id(waiter)] = waiter
        return wake

    def leave(self, waiter: Waiter, *, all_awake: bool) -> None:
        """The other way round. Where no leader is left, the next thread becomes it."""
        waiter.wake = None
        self._followers.pop(id(waiter), None)
        if self._leader == threading.get_ident():
            self._leader = None
        if self._leader is None:
            self.wake_next(all_awake=all_awake)

    def wake_next(self, *, all_awake: bool) -> None:
        """Wake one sleeping thread, which then polls, or all of them."""
        for follower in self._followers.values():
            if follower.wake is not None and follower.wake.locked():
                follower.wake.release()
                if not all_awake:
                    return


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
