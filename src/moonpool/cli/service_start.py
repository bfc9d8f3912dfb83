"""The service of the data folder, for commands of this user: found, or started detached from the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from moonpool.cli.config_choice import data_folder
from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.version import VERSION
from moonpool.sdk.remote.address import ServiceAddress
from moonpool.sdk.remote.connection import Connection
from moonpool.sdk.remote.errors import ServiceUnavailableError
from moonpool.store.service_socket import ServiceFolder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

    from moonpool.settings import Settings

_T = TypeVar("_T")
_LOG_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READY_FD: Final = 3
_TRIES_MAX: Final = 3


class StartReport(msgspec.Struct, frozen=True, kw_only=True):
    """One line on the pipe from a service to the command that starts it."""

    kind: str  # note, ready or error
    text: str = ""
    code: str = ""  # of an error that was raised on purpose


class SessionError(MoonpoolError):
    """A session cannot do what was requested. The message says what to do instead.

    A refusal by the service keeps its error code.
    """

    code = "session_unusable"
    fault = Fault.CALLER

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code or type(self).code


class SessionLostError(MoonpoolError):
    """The service ended during the request, and with it the session. Its variables and files are gone."""

    code = "session_lost"
    fault = Fault.HOST
    retryable = True


class ServiceVersionError(SessionError):
    """The service of the data folder is of another version than the command. Nothing was done."""

    code = "service_version"


class LocalService:
    """The service of one data folder."""

    def __init__(self, settings: Settings) -> None:
        self._data = data_folder(settings)
        self.folder = ServiceFolder(self._data)
        self.address = ServiceAddress("http://moonpool", "", socket=self.folder.address)
        self.connection = Connection(self.address, check=self._check_version)
        self.ends_unused = False
        """Whether it ends when nobody uses it, as it last said."""

    def _check_version(self, headers: Mapping[str, str]) -> None:
        version, _, manner = headers.get("server", "").removeprefix("moonpool/").partition(" ")
        self.ends_unused = bool(manner)
        if version != VERSION:
            remedy = "end it with `moonpool session close --all`" if manner else "start it again"
            raise ServiceVersionError(
                f"the service of this data folder is Moonpool {version[:40] or 'of another time'}, and this command is "
                f"{VERSION}; {remedy}"
            )

    async def asked(
        self, work: Callable[[Connection], Awaitable[_T]], start: Callable[[], Awaitable[None]] | None
    ) -> _T | None:
        """What `work` comes to, which may be done again; None: no service answers and there is no `start`."""
        for attempt in range(_TRIES_MAX):
            if not self.folder.is_served():
                if start is None:
                    return None
                await start()
            try:
                return await work(self.connection)
            except MoonpoolError as error:
                if not is_gone(error) or attempt == _TRIES_MAX - 1:
                    raise
        raise AssertionError("the last try returns or raises")

    async def start(self, options: Sequence[str], say: Callable[[str], None]) -> None:
        """Start it with these options of `moonpool serve` unless another command has. Raises SessionError."""
        async with self.folder.starting():
            if self.folder.is_served():
                return
            if self.folder.has_socket:
                say("the service had been killed; its sessions are gone, and new ones start afresh")
            from moonpool.store.journal_file import lost_journal_warning
            from moonpool.store.paths import journal_path

            if warning := lost_journal_warning(journal_path(self._data)):
                say(warning)  # the service has a log of its own
            reading, writing = os.pipe()
            try:
                self._spawn(options, writing)
            finally:
                os.close(writing)
            await self._wait_ready(reading, say)

    def _spawn(self, options: Sequence[str], ready_fd: int) -> None:
        """Start the process in its own process session, with the log as its output. It outlives us."""
        program = "from moonpool.cli.main import main; main()"
        command = [sys.executable, "-P", "-c", program, "serve", "--local", "--ready-fd", str(_READY_FD), *options]
        os.posix_spawn(
            sys.executable,
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.folder.log), _LOG_FLAGS, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, ready_fd, _READY_FD),
            ],
            setsid=True,
            setsigdef=(),
        )

    async def _wait_ready(self, reading: int, say: Callable[[str], None]) -> None:
        pipe = os.fdopen(reading, "rb", buffering=0)
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while line := await reader.readline():
                report = msgspec.json.decode(line, type=StartReport)
                if report.kind == "ready" or report.code == "service_runs":  # another was faster
                    return
                if report.kind == "error":
                    raise SessionError(report.text, code=report.code)
                say(report.text)
        finally:
            transport.close()
        raise SessionLostError(f"the service ended while it started; see {self.folder.log}")


def is_gone(error: MoonpoolError) -> bool:
    """Whether nothing answered, because the service has ended or ends just now."""
    return isinstance(error, ServiceUnavailableError) and error.code == ServiceUnavailableError.code


@asynccontextmanager
async def local_service(settings: Settings) -> AsyncGenerator[LocalService]:
    """The service of these settings' data folder, whether one runs or not. Raises StoreFolderError."""
    service = LocalService(settings)
    try:
        yield service
    finally:
        await service.connection.close()
        service.folder.close()


async def ended(process: int, within_s: float) -> bool:
    """Whether the process of a pidfd ends in time."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(process, over.set)
    try:
        async with asyncio.timeout(within_s):
            await over.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(process)
    return True
