"""Installations that code asks for (`%pip install`), answered once each.

SECURITY: code may ask only where its session may install, one at a time and a bounded number for each execution. The
text is the guest's and is read by `specifiers` alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from moonpool.core.calls import CallErrorType
from moonpool.core.errors import MoonpoolError
from moonpool.engine.envelopes import internal_error
from moonpool.engine.packages.model import PackagesOffError
from moonpool.sandboxes.base import SandboxClosedError
from moonpool.sandboxes.messages import ToolResult
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.engine.packages.model import InstalledPackages
    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.messages import InstallPackages

Install: TypeAlias = "Callable[[str], Awaitable[InstalledPackages]]"
INSTALLS_MAX: Final = 20
"""That the code of one execution may ask for."""
_encode = msgspec.json.Encoder().encode


class InstallsOfExecution:
    """Answers what the code of one execution asks for."""

    def __init__(self, sandbox: Sandbox, install: Install | None) -> None:
        self._sandbox, self._install = sandbox, install
        self._task: asyncio.Task[None] | None = None
        self._count = 0

    def start(self, message: InstallPackages, body: bytes, *, is_open: bool) -> None:
        """Take up one request. `is_open`: the code that made it runs."""
        self._count += 1
        if not is_open:
            why = "the execution that asked for packages is over"
            self._refuse(message.id, CallErrorType.EXECUTION_ENDED, why, len(body))
        elif self._install is None:
            self._refuse(message.id, PackagesOffError.code, str(PackagesOffError()), len(body))
        elif self._task is not None and not self._task.done():
            self._refuse(message.id, CallErrorType.RATE_LIMIT, "packages are being installed already; wait", len(body))
        elif self._count > INSTALLS_MAX:
            why = f"one execution installs packages at most {INSTALLS_MAX} times; name several at once"
            self._refuse(message.id, CallErrorType.RATE_LIMIT, why, len(body))
        else:
            self._task = asyncio.create_task(self._carry_out(self._install, message.id, body))

    async def settle(self) -> None:
        """Cancel what is under way, and wait for it."""
        if self._task is not None:
            self._task.cancel()
            await finish(_ended(self._task))

    async def _carry_out(self, install: Install, request_id: int, body: bytes) -> None:
        try:
            installed = await install(body.decode(errors="replace"))
        except MoonpoolError as error:
            self._refuse(request_id, error.code, str(error), len(body))
        except Exception as failure:  # noqa: BLE001  the last resort: the code waits for an answer
            self._refuse(request_id, CallErrorType.INTERNAL, internal_error(failure).message, len(body))
        else:
            self._answer(request_id, {"ok": True, "text": str(installed)})

    def _refuse(self, request_id: int, kind: str, message: str, size: int) -> None:
        self._sandbox.count_refused_call(size)
        self._answer(request_id, {"ok": False, "error": {"type": kind, "message": message, "retryable": False}})

    def _answer(self, request_id: int, reply: object) -> None:
        try:
            self._sandbox.send(ToolResult(id=request_id), _encode(reply))
        except SandboxClosedError:
            pass  # nobody is there to hear it


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)
