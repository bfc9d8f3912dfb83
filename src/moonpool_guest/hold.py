"""Interrupts that wait for a good moment.

INVARIANT: a KeyboardInterrupt never falls between two steps that belong together. While the main thread is inside a
`Hold` (or has a `Guard`), the signal only leaves a note and wakes the wait; it is raised when the thread leaves, with
all in order.
"""

import os
import signal
import threading


class Hold:
    """Holds back KeyboardInterrupt in the main thread while a `with` block runs. Blocks may nest."""

    def __init__(self) -> None:
        self.event_fd = -1  # whoever waits polls it; set by the channel when it opens
        self._main = threading.main_thread().ident
        self._depth = 0
        self._noted = False
        self._sent_again = False
        self.sleeping_on: threading.Lock | None = None  # what the main thread waits for, if it is a follower

    @property
    def interrupted(self) -> bool:
        """Whether this thread should leave, because an interrupt waits for it."""
        return self._noted and threading.get_ident() == self._main

    def interrupt(self) -> None:
        """Called by the signal handler, in the main thread: raise KeyboardInterrupt now or when the block ends."""
        self._noted = True
        self.settle()
        os.eventfd_write(self.event_fd, 1)
        if self.sleeping_on is not None and self.sleeping_on.locked():
            self.sleeping_on.release()

    def note(self) -> None:
        """Called by the signal handler where nothing may be raised: `settle`, or the next block, raises it."""
        self._noted = True

    def send_again(self) -> None:
        """From another thread: the signal for what was noted, if that still waits."""
        if self._noted:
            self._sent_again = True
            os.kill(os.getpid(), signal.SIGINT)

    def has_come(self) -> bool:
        """Called first by the signal handler: whether this is only `send_again`, and what it was for is over."""
        sent_again, self._sent_again = self._sent_again, False
        return sent_again and not self._noted

    def settle(self) -> None:
        """Raise what was noted, unless the main thread is inside a block."""
        if self._noted and not self._depth:
            self._noted = False
            raise KeyboardInterrupt

    def forget(self) -> None:
        """The execution that the interrupt was meant for is over."""
        self._noted = False

    def __enter__(self) -> None:
        if threading.get_ident() == self._main:
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        if threading.get_ident() == self._main:
            self._depth -= 1
            self.settle()


class Guard:
    """The channel's lock. Whoever has it is also held."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._hold.__enter__()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._hold.__exit__()
