"""MCP over the process's standard streams.

Only MCP is written to stdout, whatever kernels, upstream servers, libraries or a stray `print` write (B-004):
`claim_stdio` moves the real stdin and stdout to private descriptors that no child inherits, points descriptor 1 at
stderr and descriptor 0 at /dev/null. Call it before anything else starts, then assemble, then serve.

Serving ends on EOF on stdin, on SIGTERM, SIGINT or SIGHUP, or when nobody reads stdout any more. At EOF requests in
flight get a short grace period, so that `printf ... | moonpool mcp` is answered; then everything is cancelled except
executions that wait in the queue of approvals (`--approve queue`): the process stays until they end, their questions
expire or a signal arrives. Their outcomes are kept.

INVARIANT: when `serve` returns, no code of this connection runs and no sandbox of it is left.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from moonpool.core.phrases import counted
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.lines import LineReader, LineWriter
from moonpool.server.mcp.tools import CodeTools, ServedApp

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    from moonpool.server.mcp.protocol_gate import Gate
    from moonpool.server.mcp.server import OwnServer, ServedProfile, ServedTools

EOF_GRACE_S: Final = 5.0
"""Enough for a first sandbox on a busy machine. SIGTERM, which the SDKs send after 2 s, ends it sooner."""
FLUSH_S: Final = 1.0
_WAITING_MESSAGES_MAX: Final = 512
_log = logging.getLogger(__name__)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioWire:
    """The client's two descriptors, close-on-exec."""

    read_fd: int
    write_fd: int


def claim_stdio() -> StdioWire:
    """Reserve stdin and stdout: nothing else in this process or its children can use them."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    wire = StdioWire(read_fd=_duplicate(0), write_fd=_duplicate(1))
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # no stderr either
        os.dup2(null, 1)
    os.close(null)
    return wire


async def serve(app: ServedApp, *, wire: StdioWire | None = None, bindings: Bindings | None = None) -> None:
    """Serve one client until it disconnects. `bindings` are those of the approver that `app` was assembled with, if
    any.
    """
    await serve_tools(CodeTools(app, bindings or Bindings()), wire or claim_stdio())


async def serve_tools(tools: ServedTools | OwnServer, wire: StdioWire) -> None:
    """Serve these tools to one client until it disconnects; then they are closed."""
    from moonpool.server.mcp.gated_server import Answers  # noqa: PLC0415  importing the SDK takes a second
    from moonpool.server.mcp.protocol_gate import Gate  # noqa: PLC0415
    from moonpool.server.mcp.server import build_server  # noqa: PLC0415

    stop, deaf = asyncio.Event(), asyncio.Event()
    server = build_server(tools)
    reader, writer = LineReader(wire.read_fd), LineWriter(wire.write_fd, on_broken=deaf.set)
    to_server, from_gate = anyio.create_memory_object_stream["SessionMessage"](_WAITING_MESSAGES_MAX)
    gate = Gate(
        to_server=to_server.send,
        to_client=writer.send,
        serves=lambda method: server.get_request_handler(method) is not None,
    )
    tools.prepare()
    try:
        async with stopping_on_signals(stop), anyio.create_task_group() as tasks:
            tasks.start_soon(_close_on, stop, deaf, reader)
            tasks.start_soon(_take_lines, gate, reader, _Ends(stop, deaf), to_server, tools)
            await server.run(from_gate, Answers(gate), server.create_initialization_options())
            await _until(stop, tools.wait_spared())
            stop.set()
    finally:
        with anyio.CancelScope(shield=True):
            await tools.close()
            await writer.close(FLUSH_S)


@dataclass(frozen=True, slots=True)
class _Ends:
    """Reasons for the end of a connection besides EOF: a signal, or a client that no longer reads."""

    stop: asyncio.Event
    deaf: asyncio.Event


async def _take_lines(
    gate: Gate,
    reader: LineReader,
    ends: _Ends,
    to_server: MemoryObjectSendStream[SessionMessage],
    tools: ServedProfile,
) -> None:
    """Feed the gate until the client disconnects; then give requests in flight a moment to end, and end the server."""
    async with to_server:
        while (line := await reader.receive()) is not None:
            await gate.take_line(line)
        if not ends.stop.is_set():
            with anyio.move_on_after(EOF_GRACE_S):
                await _first_of(gate.idle, ends.stop, ends.deaf)
        if not ends.stop.is_set() and (waiting := tools.leave()):
            _log.warning(
                "the client has left; %s waiting for approval will go on: moonpool approvals list. A signal ends that",
                counted(waiting, "execution"),
            )


async def _until(stop: asyncio.Event, work: Coroutine[object, object, None]) -> None:
    """Wait for `work`, at most until `stop`."""
    running, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        running.cancel()
        stopped.cancel()


async def _close_on(stop: asyncio.Event, deaf: asyncio.Event, reader: LineReader) -> None:
    await _first_of(stop, deaf)
    reader.close()


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


@asynccontextmanager
async def stopping_on_signals(stop: asyncio.Event) -> AsyncGenerator[None]:
    """Signals that end a command set `stop` inside the block."""
    loop = asyncio.get_running_loop()
    taken: list[signal.Signals] = []
    for number in _SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not on the main thread: up to the caller
            loop.add_signal_handler(number, stop.set)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


def _duplicate(fd: int) -> int:
    """A private duplicate above the standard range; of /dev/null if the descriptor is closed."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            return fcntl.fcntl(null, fcntl.F_DUPFD_CLOEXEC, 3)
        finally:
            os.close(null)
