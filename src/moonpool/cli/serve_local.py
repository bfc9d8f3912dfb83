"""`moonpool serve --local`: a service at no address, for commands of this user.

`moonpool run --session` starts one where none runs, detached from its terminal, and hears over a pipe what it is doing
(`note`), that it is `ready`, or why it failed (`error`). It ends with its last session, if no client of MCP uses it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import msgspec

from moonpool.bootstrap.service import open_service
from moonpool.cli.config_choice import data_folder, read_config
from moonpool.cli.service_serving import allow_open_files, drained, report, served_at_socket, stopping, taken_folder
from moonpool.cli.service_start import StartReport
from moonpool.cli.standard_streams import code_of, one_sentence
from moonpool.ipybox.mcp_server.hosted import served_profiles
from moonpool.server.http.health import Readiness
from moonpool.settings import Settings
from moonpool.store.service_socket import ENDING_S

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.bootstrap.service import Service
    from moonpool.environments.base import BuildProgress


def serve_local(config: Path | None, overrides: dict[str, Path | str | None], ready_fd: int | None) -> None:
    """Serve until a signal, or until nothing is used. Raises MoonpoolError."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    starter = _Starter(ready_fd)
    try:
        asyncio.run(_serve(config, overrides, starter))
    except Exception as error:
        starter.tell(StartReport(kind="error", text=one_sentence(error), code=code_of(error)))
        raise


async def _serve(config_path: Path | None, overrides: dict[str, Path | str | None], starter: _Starter) -> None:
    allow_open_files()
    settings = Settings.load(os.environ, **overrides)
    config = await asyncio.to_thread(read_config, config_path)
    state, readiness = data_folder(settings), Readiness()
    async with AsyncExitStack() as bound:
        taken = await bound.enter_async_context(taken_folder(state, wait_s=ENDING_S))
        stop = bound.enter_context(stopping())
        service_open = open_service(
            settings,
            environ=os.environ,
            config=config,
            report=report,
            state=state,
            profiles=served_profiles(),
            progress=starter.note,
            is_open=True,
        )
        async with service_open as service:
            readiness.phase = "ready"
            at_socket = served_at_socket(taken, service, readiness, ends_unused=True)
            server = await bound.enter_async_context(at_socket)
            starter.tell(StartReport(kind="ready"))
            starter.leave()
            await _stopped_or_unused(stop, service)
            await drained(report, service, readiness, stop, server)


async def _stopped_or_unused(stop: asyncio.Event, service: Service) -> None:
    waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(service.unused())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


class _Starter:
    """The process that started us, until it was told that all is ready; after that its descriptor may be reused."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        if fd is not None:
            os.set_inheritable(fd, False)

    def note(self, step: BuildProgress) -> None:
        self.tell(StartReport(kind="note", text=f"environment {step.environment}: {step.note}"))

    def tell(self, report: StartReport) -> None:
        if self._fd is not None:
            with suppress(OSError):  # who started us is gone: we end unused
                os.write(self._fd, msgspec.json.encode(report) + b"\n")

    def leave(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
