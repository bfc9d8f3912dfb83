"""Writes the sandboxed program's output to our stderr as it arrives (H-019), and our own remarks.

A thread writes, so that a slow or stuck reader never blocks the event loop and its time limits. The buffer is bounded
by the total output limit of an execution.

SECURITY: on a terminal every control character except tab and line ends is made visible, because escape sequences of a
program could redraw the screen, including an approval question. While a question is open, no program output is shown.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import queue
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from moonpool.cli.standard_streams import write_all
from moonpool.core.phrases import on_one_line

if TYPE_CHECKING:
    from collections.abc import Generator
    from enum import IntEnum

_STDERR = 2
_DRAIN_S = 1.0
_CONTROLS = [code for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(code) not in "\t\n\r"]
_BIDIRECTIONAL = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_VISIBLE = {
    **{code: chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}" for code in _CONTROLS},
    **dict.fromkeys(_BIDIRECTIONAL, "\N{REPLACEMENT CHARACTER}"),
}


class ProgramOutput:
    """Writes to stderr in the order of the calls. Close it: then everything is written."""

    def __init__(self, fd: int = _STDERR) -> None:
        self._fd = fd
        self._decoders: dict[int, codecs.IncrementalDecoder] | None = {} if os.isatty(fd) else None
        self._queue: queue.SimpleQueue[bytes | threading.Event | None] = queue.SimpleQueue()
        self._within_line = False  # the program's last byte was no line end
        self._may_write, self._writing = threading.Event(), threading.Lock()
        self._may_write.set()
        self._thread = threading.Thread(target=self._write, name="moonpool-stderr", daemon=True)
        self._thread.start()

    def show(self, stream: IntEnum, data: bytes) -> None:
        """Write a piece of the program's output."""
        if self._decoders is not None:
            decoder = self._decoders.setdefault(stream, codecs.getincrementaldecoder("utf-8")("replace"))
            data = decoder.decode(data).translate(_VISIBLE).encode()
        self._within_line = not data.endswith(b"\n") if data else self._within_line
        self._queue.put(data)

    def say(self, text: str) -> None:
        """Write a remark of ours on its own line. SECURITY: it may contain names of servers' tools."""
        self.end_line()
        self._queue.put(f"moonpool: {on_one_line(text)}\n".encode("utf-8", "replace"))

    def end_line(self) -> None:
        """On a terminal, start a new line unless the program's output ended with one."""
        if self._within_line and self._decoders is not None:
            self._queue.put(b"\n")
        self._within_line = False

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold output back inside the block; it is shown afterwards.

        SECURITY: pending output is held, too; otherwise it would appear below the question.
        """
        self._may_write.clear()
        if self._decoders is not None:  # only a terminal may make us wait
            with self._writing:
                pass
        try:
            yield
        finally:
            self._may_write.set()

    async def drain(self) -> None:
        """Wait until everything is written, with a time limit: a reader may read stdout before stderr."""
        self._may_write.set()
        written = threading.Event()
        self._queue.put(written)
        with suppress(RuntimeError):  # no more threads can start: do not wait
            await asyncio.to_thread(written.wait, _DRAIN_S)

    def close(self) -> None:
        """Write the rest. Idempotent."""
        self._may_write.set()
        self._queue.put(None)
        self._thread.join()

    def _write(self) -> None:
        gone = False
        while (data := self._queue.get()) is not None:
            if isinstance(data, threading.Event):
                data.set()
                continue
            try:
                if not gone:
                    self._write_all(data)
            except OSError:
                gone = True  # the reader is gone; the envelope must still be printed

    def _write_all(self, data: bytes) -> None:
        while True:
            self._may_write.wait()
            with self._writing:
                if self._may_write.is_set():
                    return write_all(self._fd, data)
