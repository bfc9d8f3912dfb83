"""One order about checkpoints and the guest's answer to it, on a sandbox that runs no code.

SECURITY: an answer to another order, or silence, ends the sandbox.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final

from moonpool.engine.files.errors import shown
from moonpool.sandboxes.backlog import Backlog
from moonpool.sandboxes.base import SandboxClosedError
from moonpool.sandboxes.messages import CheckpointDone
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.sandboxes.base import ExitOutcome, Sandbox
    from moonpool.sandboxes.messages import CheckpointOrder, GuestMessage

ANSWER_S: Final = 30.0
_ENDED: Final = "the sandbox ended meanwhile, and with it variables, files and checkpoints"
_orders = itertools.count(1)


class _Exchange(Backlog):
    """Takes the answer, and keeps everything else for the next owner."""

    def __init__(self, sandbox: Sandbox, order: int) -> None:
        super().__init__()
        self._sandbox, self._order = sandbox, order
        self.answer: asyncio.Future[CheckpointDone] = asyncio.get_running_loop().create_future()

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        if not isinstance(message, CheckpointDone):
            super().on_message(message, body)
        elif message.order == self._order and not self.answer.done():
            self.answer.set_result(message)
        else:
            self._sandbox.kill()

    def on_exit(self, outcome: ExitOutcome) -> None:
        super().on_exit(outcome)
        self.end()

    def end(self) -> None:
        if not self.answer.done():
            self.answer.set_result(CheckpointDone(order=self._order, refused=_ENDED))


async def carry_out(sandbox: Sandbox, order_of: Callable[[int], CheckpointOrder]) -> CheckpointDone:
    """Send the order and return the answer, also when the sandbox ended over it. Not cut short by a cancellation."""
    return await finish(_carry_out(sandbox, order_of(next(_orders))))


async def _carry_out(sandbox: Sandbox, order: CheckpointOrder) -> CheckpointDone:
    exchange = _Exchange(sandbox, order.order)
    sandbox.attach(exchange)  # stays until the next owner
    try:
        sandbox.send(order)
        async with asyncio.timeout(ANSWER_S):
            await asyncio.wait([exchange.answer])
    except SandboxClosedError:
        exchange.end()
    except TimeoutError:
        sandbox.kill()
        await sandbox.wait_exited()
        exchange.end()
    done = exchange.answer.result()
    return CheckpointDone(order=done.order, refused=shown(done.refused), full=done.full, lost=shown(done.lost))
