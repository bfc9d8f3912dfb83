"""One order about files and the guest's answers to it, on a sandbox that runs no code.

An exchange stands in for the owner of the sandbox: it takes the answers to its own order and keeps everything else
(output of processes that run on, late calls) for the next owner, within the bounds of `Backlog`, which also bounds
what is read of their output during a transfer.

SECURITY: PID 1 may be replaced by the code. An answer to another order, one that was not asked for, or a piece of the
wrong size ends the sandbox; so does silence. What is kept is at most the window that was asked for.
INVARIANT: an exchange that was left open is given up: the guest has confirmed that nothing is left, or is dead.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from moonpool.engine.files.errors import FileTransferError, TransferTimeoutError, refusal, shown
from moonpool.sandboxes.backlog import Backlog
from moonpool.sandboxes.base import SandboxClosedError
from moonpool.sandboxes.messages import (
    FileAnswer,
    FileDone,
    FileDrop,
    FileEntries,
    FileFailed,
    FileGet,
    FileOpening,
    FilePut,
)
from moonpool.sandboxes.shielding import finish
from moonpool_wire.limits import FILE_LISTING_BYTES_MAX, FILE_PIECE_BYTES_MAX, FILE_PIECES_IN_FLIGHT_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ExitOutcome, Sandbox
    from moonpool.sandboxes.messages import FileOrder, GuestMessage

ANSWER_S: Final = 30.0
"""How long the guest may take for one answer: a step of a transfer, not all of it."""

_GIVE_UP_S: Final = 5.0
_ENDS: Final = FileDone | FileEntries | FileFailed


class FileExchange(Backlog):
    """Speaks with the guest about one order."""

    def __init__(self, sandbox: Sandbox, opening: FileOpening, *, answer_s: float = ANSWER_S) -> None:
        super().__init__()
        self.order = opening.order
        self.path = shown(opening.path)
        self.size_setting = "file_bytes_max" if isinstance(opening, FilePut | FileGet) else "disk_bytes_max"
        self._sandbox, self._answer_s = sandbox, answer_s
        self._answers: asyncio.Queue[tuple[FileAnswer, bytes] | None] = asyncio.Queue()
        self._over = False  # the guest has said its last word on the order
        self._killed = False
        self._violation = ""

    # --- what the guest says

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        """An answer to the order, or something for the next owner."""
        if not isinstance(message, FileAnswer):
            super().on_message(message, body)
        elif self._over or message.order != self.order:
            self._violate("it answered an order that was not open")
        elif len(body) > (FILE_LISTING_BYTES_MAX if isinstance(message, FileEntries) else FILE_PIECE_BYTES_MAX):
            self._violate("it sent a piece that is too large")
        elif self._answers.qsize() > 2 * FILE_PIECES_IN_FLIGHT_MAX:
            self._violate("it sent more than it was asked for")
        else:
            self._over = isinstance(message, _ENDS)
            self._answers.put_nowait((message, body))

    def on_exit(self, outcome: ExitOutcome) -> None:
        """The sandbox is gone."""
        super().on_exit(outcome)
        self._answers.put_nowait(None)

    def _violate(self, how: str) -> None:
        if not self._violation:
            self._violation = how
            self._kill()
            self._answers.put_nowait(None)

    def _kill(self) -> None:
        self._killed = True
        self._sandbox.kill()

    def violate(self, how: str) -> FileTransferError:
        """End the sandbox for what it said; return the error to raise."""
        self._violate(how)
        return self._gone()

    # --- what we say

    def send(self, message: FileOrder, body: bytes = b"") -> None:
        """Send a message of the order. Raises FileTransferError when the sandbox is gone."""
        try:
            self._sandbox.send(message, body)
        except SandboxClosedError:
            raise self._gone() from None

    async def answer(self) -> tuple[FileAnswer, bytes]:
        """The next answer. Raises FileTransferError when the order failed, was never answered, or the guest is gone."""
        try:
            async with asyncio.timeout(self._answer_s):
                item = await self._answers.get()
        except TimeoutError:
            self._kill()
            raise TransferTimeoutError(
                f"the sandbox did not answer for {self._answer_s:g} s and was ended; open a new session"
            ) from None
        if item is None:
            self._answers.put_nowait(None)  # for whoever asks again
            raise self._gone()
        message, _ = item
        if isinstance(message, FileFailed):
            raise refusal(self.path, message.code, message.message, size_setting=self.size_setting)
        return item

    def answered(self) -> bool:
        """Whether an answer waits to be read."""
        return not self._answers.empty()

    async def close(self) -> None:
        """Give the order up unless it has ended. A guest that does not confirm is ended.

        A sandbox that was killed is gone afterwards: whoever comes next must not be given a dying one.
        """
        if not (self._over or self._killed or self._sandbox.has_ended):
            await self._give_up()
        if self._killed:
            await self._sandbox.wait_exited()

    async def _give_up(self) -> None:
        try:
            self._sandbox.send(FileDrop(order=self.order))
            async with asyncio.timeout(_GIVE_UP_S):
                while not self._over and await self._answers.get() is not None:
                    pass
        except SandboxClosedError:
            return
        except TimeoutError:
            self._kill()

    def _gone(self) -> FileTransferError:
        if self._violation:
            how = f"the code in the sandbox broke the protocol for files: {self._violation}"
        elif self.ended is not None and self.ended.violation:
            how = self.ended.violation
        else:
            how = "the sandbox ended during the transfer"
        return FileTransferError(f"{how}; nothing was kept here, and its files are gone: open a new session")


@asynccontextmanager
async def exchanging(
    sandbox: Sandbox, opening: FileOpening, *, timeout_s: float, answer_s: float = ANSWER_S
) -> AsyncGenerator[FileExchange]:
    """Send `opening` and yield the exchange; leave it closed. Raises TransferTimeoutError after `timeout_s` in all."""
    exchange = FileExchange(sandbox, opening, answer_s=answer_s)
    sandbox.attach(exchange)  # stays until the next owner: it keeps what the sandbox says meanwhile
    try:
        async with asyncio.timeout(timeout_s):
            exchange.send(opening)
            yield exchange
    except TimeoutError:
        raise TransferTimeoutError(
            f"the transfer took longer than {timeout_s:g} s and was given up; send less, or raise transfer_timeout_s"
        ) from None
    finally:
        await finish(exchange.close())
