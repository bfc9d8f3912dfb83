"""Installations that code asks for (`%pip install`), answered once each.

SECURITY: code may ask only where its session may install, one at a time and a bounded number for each execution. The
text is the guest's and is read by `specifiers` alone.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from moonpool.core.calls import CallErrorType
from moonpool.core.errors import MoonpoolError
from moonpool.engine.envelopes import internal_error
from moonpool.engine.packages.model import PackageError, PackagesOffError
from moonpool.sandboxes.base import SandboxClosedError
from moonpool.sandboxes.messages import ToolResult
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.json import JsonObject
    from moonpool.engine.packages.model import InstalledPackage, InstalledPackages
    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.messages import InstallPackages

INSTALLS_MAX: Final = 20
"""That the code of one execution may ask for."""
_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallAnswer:
    """What code is told that asked for packages, and what its session has then; nothing if that did not change."""

    reply: JsonObject
    packages: tuple[InstalledPackage, ...] = ()


Installs: TypeAlias = "Callable[[str], Awaitable[InstallAnswer]]"


async def answer_of(installing: Awaitable[InstalledPackages]) -> InstallAnswer:
    """The answer of an installation, also where it fails.

    SECURITY: other errors than of packages name settings and places of the host; they are the operator's.
    """
    try:
        installed = await installing
    except PackageError as error:
        return InstallAnswer(reply=_failure(error.code, error.for_guest))
    except MoonpoolError as error:
        _log.warning("code cannot install packages: %s", error)
        return InstallAnswer(reply=_failure(error.code, "packages cannot be installed here now"))
    except Exception as failure:  # noqa: BLE001  the last resort: the code waits for an answer
        return InstallAnswer(reply=_failure(CallErrorType.INTERNAL, internal_error(failure).message))
    return InstallAnswer(reply={"ok": True, "text": str(installed)}, packages=installed.packages)


def _failure(kind: str, message: str) -> JsonObject:
    return {"ok": False, "error": {"type": kind, "message": message, "retryable": False}}


class InstallsOfExecution:
    """Answers what the code of one execution asks for."""

    def __init__(self, sandbox: Sandbox, install: Installs | None) -> None:
        self._sandbox, self._install = sandbox, install
        self._task: asyncio.Task[None] | None = None
        self._count = 0

    def start(self, message: InstallPackages, body: bytes, *, is_open: bool) -> None:
        """Take up one request. `is_open`: the code that made it runs."""
        if not is_open:
            why = "the execution that asked for packages is over"
            self._refuse(message.id, CallErrorType.EXECUTION_ENDED, why, len(body))
        elif self._install is None:
            self._refuse(message.id, PackagesOffError.code, PackagesOffError().for_guest, len(body))
        elif self._task is not None and not self._task.done():
            self._refuse(message.id, CallErrorType.RATE_LIMIT, "packages are being installed already; wait", len(body))
        elif self._count >= INSTALLS_MAX:
            why = f"one execution installs packages at most {INSTALLS_MAX} times; name several at once"
            self._refuse(message.id, CallErrorType.RATE_LIMIT, why, len(body))
        else:
            self._count += 1
            self._task = asyncio.create_task(self._carry_out(self._install, message.id, body))

    async def settle(self) -> None:
        """Cancel what is under way, and wait for it."""
        if self._task is not None:
            self._task.cancel()
            await finish(_ended(self._task))

    async def _carry_out(self, install: Installs, request_id: int, body: bytes) -> None:
        self._answer(request_id, (await install(body.decode(errors="replace"))).reply, len(body))

    def _refuse(self, request_id: int, kind: str, message: str, size: int) -> None:
        self._answer(request_id, _failure(kind, message), size)

    def _answer(self, request_id: int, reply: JsonObject, size: int) -> None:
        if reply["ok"] is not True:
            self._sandbox.count_refused_call(size)
        try:
            self._sandbox.send(ToolResult(id=request_id), _encode(reply))
        except SandboxClosedError:
            pass  # nobody is there to hear it


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)
