"""Ctrl-C and termination signals: the first interrupts the code, the second kills its sandbox, the third ends us.

After the first two the envelope is printed as usual. SIGTERM and SIGHUP count like Ctrl-C, so that they end the process
cleanly, too. Before any code runs, the command itself is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Protocol

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptible(Protocol):
    """A session that runs code, here or in its own process."""

    def interrupt(self, *, at_once: bool = False) -> None: ...


class Interrupts:
    """Counts the signals of one command. Create it inside the event loop, in the task to cancel."""

    def __init__(self) -> None:
        self._count = 0
        self._target: Interruptible | None = None
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP on purpose
                loop.add_signal_handler(number, self._on_signal, number)

    def aim(self, target: Interruptible | None) -> None:
        """From now on signals interrupt `target`."""
        self._target = target

    def _on_signal(self, number: signal.Signals) -> None:
        self._count += 1
        if self._count >= 3:
            os._exit(128 + number)  # the third signal
        if self._target is None:
            self._task.cancel()
        else:
            self._target.interrupt(at_once=self._count == 2)
