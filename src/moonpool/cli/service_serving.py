"""What both forms of `moonpool serve` share: the socket, signals, and the end."""

from __future__ import annotations

import asyncio
import resource
import signal
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from moonpool.bootstrap import local_principal
from moonpool.cli.printer import remark
from moonpool.core.phrases import on_one_line
from moonpool.server.http.application import Application
from moonpool.server.http.serving import DRAIN_S, OPEN_FILES, http_served
from moonpool.server.http.terminal import NAMES, is_own_user, naming_version, terminal_admission
from moonpool.store.paths import DEFAULT_TENANT
from moonpool.store.service_socket import ServiceFolder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
    from pathlib import Path

    from moonpool.bootstrap.service import Service
    from moonpool.server.http.health import Readiness
    from moonpool.server.http.serving import HttpServer
    from moonpool.store.service_socket import ServiceSocket


def allow_open_files() -> None:
    """As many as connections may take with what is behind them, if this process may; many start with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@asynccontextmanager
async def taken_folder(state: Path, *, wait_s: float = 0.0) -> AsyncGenerator[ServiceSocket]:
    """Have the folder for this process alone. Raises ServiceRunsError, StoreFolderError."""
    taken = await ServiceFolder(state).take(wait_s=wait_s)
    try:
        yield taken
    finally:
        taken.release()


@asynccontextmanager
async def served_at_socket(
    taken: ServiceSocket, service: Service, readiness: Readiness, *, ends_unused: bool = False
) -> AsyncGenerator[HttpServer]:
    """Serve commands of this user, from now on. Raises StoreFolderError."""
    application = Application(NAMES, terminal_admission(DEFAULT_TENANT, local_principal()), readiness)
    application.open(service.routes, service.public, limiter=service.limiter, tracing=service.engine.tracing)
    taken.bind()
    async with http_served(taken, naming_version(application, ends_unused=ends_unused), is_own_user) as server:
        yield server


async def drained(
    say: Callable[[str], None], service: Service, readiness: Readiness, stop: asyncio.Event, *servers: HttpServer
) -> None:
    """Take no more requests, and wait for the ends of those in progress; at most until another signal."""
    stop.clear()
    readiness.phase = "draining"
    say(f"stopping; calls in progress have {DRAIN_S:g} s to end")
    service.servers.end_listening()
    for server in servers:
        server.end_listening()
    await _until(stop, _all_drained(service, servers))


async def _all_drained(service: Service, servers: Sequence[HttpServer]) -> bool:
    ended = await asyncio.gather(*(one.drain(DRAIN_S, busy=lambda: service.is_busy) for one in servers))
    return all(ended)


async def _until(stop: asyncio.Event, work: Coroutine[object, object, bool]) -> None:
    """Wait for `work`, at most until another signal."""
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        stopped.cancel()


@contextmanager
def stopping() -> Generator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in numbers:
            with suppress(ValueError):
                loop.remove_signal_handler(number)


def report(text: str) -> None:
    """Say something to the operator."""
    remark(on_one_line(text))
