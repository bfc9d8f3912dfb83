"""A person at a terminal: the command on a pseudo-terminal of its own; stdout may be apart, to read its line."""

from __future__ import annotations

import os
import pty
import select
import termios
import time
from typing import TYPE_CHECKING, Self

from cli.console import Ended, environment
from commands.process import SCRIPT, Command

if TYPE_CHECKING:
    import signal
    from pathlib import Path

WAIT_S = 40


class Terminal:
    """A command whose controlling terminal, stdin and stderr are ours; stdout is a pipe, or `all_shown` too."""

    def __init__(
        self,
        home: Path,
        *arguments: str | Path,
        rows: int = 24,
        columns: int = 80,
        all_shown: bool = False,
        **more: str,
    ) -> None:
        self._side, other = pty.openpty()
        termios.tcsetwinsize(other, (rows, columns))
        self._out, out = os.pipe()
        self.process = Command(
            [SCRIPT, *arguments],
            stdin=other,
            stdout=other if all_shown else out,
            stderr=other,
            cwd=home,
            env=environment(home, **{"TERM": "xterm", **more}),
            start_new_session=True,
            controlling_terminal=True,
        )
        os.close(other)
        os.close(out)
        self._shown = b""
        self.stdout = b""
        self._open = {self._side, self._out}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._side)
        os.close(self._out)

    def wait_for(self, text: str, *, after: int = 0) -> int:
        """Read until `text` is on the screen behind `after`; return where it ends."""
        self._read_until(lambda: text in self.screen[after:])
        return self.screen.index(text, after) + len(text)

    @property
    def screen(self) -> str:
        """All that was shown. Put together anew: a piece may end within a character or a line's end."""
        return self._shown.decode("utf-8", "replace").replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self._side, text.encode())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_ended(self) -> Ended:
        self._read_until(lambda: not self._open)
        return Ended(self.process.wait(WAIT_S), self.stdout, self.screen)

    def _read_until(self, done: object) -> None:
        assert callable(done)
        limit = time.monotonic() + WAIT_S
        while not done():
            assert time.monotonic() < limit, f"nothing more within {WAIT_S} s: {self.screen[-2000:]}"
            assert self._open, f"the command ended: {self.screen[-2000:]} {self.stdout[:500]!r}"
            ready, _, _ = select.select(list(self._open), [], [], 1)
            for fd in ready:
                self._take(fd)

    def _take(self, fd: int) -> None:
        try:
            piece = os.read(fd, 65536)
        except OSError:  # EIO: nobody has the other side open any more
            piece = b""
        if not piece:
            self._open.discard(fd)
        elif fd == self._out:
            self.stdout += piece
        else:
            self._shown += piece
