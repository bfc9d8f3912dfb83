"""`moonpool run --session NAME`: find or start the session's process, run there, print here.

The session keeps what it was started with: configuration, policy, environment and backend. A later run may omit them; a
run with different ones is refused. Each run chooses its approver.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.cli.approvers import open_approver, responder_beside
from moonpool.cli.config_choice import chosen_path, data_folder
from moonpool.cli.interrupts import Interrupts
from moonpool.cli.session_process import SessionStart, StartReport
from moonpool.configuration.server_files import load_servers
from moonpool.core.json import digest_json
from moonpool.server.named_sessions.client import SessionRun
from moonpool.server.named_sessions.sockets import SessionFolder, checked_name
from moonpool.server.named_sessions.transfers import RemoteFiles
from moonpool.server.named_sessions.wire import Run, SessionError, SessionLostError
from moonpool.store.journal_file import lost_journal_warning
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from moonpool.cli.run_order import RunParts
    from moonpool.settings import Settings

_TRIES_MAX: Final = 3


async def run_in_session(parts: RunParts, name: str) -> None:
    """Run the code in session `name` and print its line. Raises MoonpoolError before there is an envelope."""
    interrupts = Interrupts()
    folder = SessionFolder(data_folder(parts.settings))
    checked_name(name)
    order = parts.order
    request = Run(
        code=parts.source.code,
        name=parts.source.name,
        timeout_s=order.timeout_s,
        language=parts.source.language,
        typescript=parts.source.typescript,
        environment=order.environment,
        backend=order.backend,
        workspace=_workspace(order.workspace),
        config_digest=_config_digest(order.config) if order.config is not None else None,
        policy_digest=_policy_digest(parts.settings),
        network=order.allow_network or None,
    )
    files = RemoteFiles(lambda: _connection(folder, name))
    async with open_approver(order.approve, parts.output, parts.settings) as approver:
        person = responder_beside(approver)
        request = msgspec.structs.replace(request, fills_forms=person is not None)
        for _ in range(_TRIES_MAX):
            connection = folder.connect(name) or await _start(folder, parts, name)
            run = SessionRun(
                connection, show=parts.output.show, say=parts.output.say, approver=approver, responder=person
            )
            await parts.files.send(files)
            interrupts.aim(run)
            finished = await run.execute(request)
            interrupts.aim(None)
            if finished is not None:
                await parts.hand_over(finished.line, finished.ok, files)
                return
    raise SessionLostError(f"session {name!r} ends as often as it is started; see {folder.log(name)}")


def _connection(folder: SessionFolder, name: str) -> socket.socket:
    if (connection := folder.connect(name)) is None:
        raise SessionLostError(f"the process of session {name!r} has ended; run again to start afresh")
    return connection


async def _start(folder: SessionFolder, parts: RunParts, name: str) -> socket.socket:
    """Start the session's process unless another client has; return a connection to it."""
    async with folder.starting(name):
        if (connection := folder.connect(name)) is not None:
            return connection
        if folder.has_socket(name):
            parts.output.say(f"the process of session {name!r} had been killed; the session starts afresh")
        if warning := lost_journal_warning(journal_path(data_folder(parts.settings))):
            parts.output.say(warning)  # the session's process logs to its own file
        path = chosen_path(parts.order.config, os.environ)
        reading, writing = os.pipe()
        start = SessionStart(
            name=name,
            config=str(path.absolute()) if path is not None else None,
            config_digest=_config_digest(path),
            policy=str(policy.absolute()) if (policy := parts.settings.policy) is not None else None,
            environment=parts.settings.environment,
            backend=parts.settings.backend,
            network=parts.order.allow_network,
            workspace=_workspace(parts.order.workspace),
            ready_fd=3,
        )
        try:
            _spawn(start, folder.log(name), writing)
        finally:
            os.close(writing)
        await _wait_ready(reading, folder.log(name), name, parts.output.say)
        connection = folder.connect(name)
    if connection is None:
        raise SessionLostError(f"session {name!r} ended as soon as it had started; see {folder.log(name)}")
    return connection


def _spawn(start: SessionStart, log: Path, ready_fd: int) -> None:
    """Start the process in its own process session, with the log as its output. It outlives us."""
    try:
        encoded = msgspec.json.encode(start).decode()
    except UnicodeEncodeError:
        raise SessionError("the path of a session's configuration or policy file is no UTF-8; rename it") from None
    command = [sys.executable, "-P", "-m", "moonpool.cli.session_process", encoded]
    os.posix_spawn(
        sys.executable,
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            (os.POSIX_SPAWN_DUP2, ready_fd, start.ready_fd),
        ],
        setsid=True,
        setsigdef=(),
    )


async def _wait_ready(reading: int, log: Path, name: str, say: Callable[[str], None]) -> None:
    """Wait until the process is ready. Raises SessionError with its message if it cannot start."""
    pipe = os.fdopen(reading, "rb", buffering=0)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while line := await reader.readline():
            report = msgspec.json.decode(line, type=StartReport)
            if report.kind == "ready":
                return
            if report.kind == "error":
                raise SessionError(report.text, code=report.code)
            say(report.text)
    finally:
        transport.close()
    raise SessionLostError(f"the process of session {name!r} ended while it started; see {log}")


def _workspace(folder: Path | None) -> str | None:
    return None if folder is None else str(folder.expanduser().resolve())


def _policy_digest(settings: Settings) -> str | None:
    """Digest of the rules in the policy files as they are now."""
    if not any((settings.policy, settings.key_policy, settings.session_policy)):
        return None
    from moonpool.configuration.policies import files_digest

    return files_digest(settings)


def _config_digest(path: Path | None) -> str:
    """Digest of a configuration's servers and rules, with variables as they are now."""
    if path is None:
        return ""
    from moonpool.configuration.servers import resolved_key

    config = load_servers(path, os.environ)
    return digest_json(
        {server.server_id: [resolved_key(server), repr(server.rules), server.trusted] for server in config.servers}
    )
