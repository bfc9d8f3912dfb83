"""The process of a session: `python -P -m moonpool.cli.session_process START`. Internal.

The first `moonpool run --session NAME` starts it, detached from its terminal. It reports over a pipe what it is doing
(`note`), that it is `ready`, or why it failed (`error`). If nobody reads `ready`, it ends. Its stdout and stderr go to
the session's log.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from moonpool.cli.importing import no_collection
from moonpool.cli.private_memory import keep_memory_private
from moonpool.cli.standard_streams import code_of, one_sentence, sentence_and_code
from moonpool.configuration.server_files import load_servers
from moonpool.settings import Settings

if TYPE_CHECKING:
    from moonpool.environments.base import BuildProgress


class SessionStart(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a new session."""

    name: str
    config: str | None
    config_digest: str
    policy: str | None
    environment: str
    backend: str
    network: tuple[str, ...]
    workspace: str | None
    ready_fd: int


class StartReport(msgspec.Struct, frozen=True, kw_only=True):
    """One line on the pipe to the process that started us."""

    kind: str  # note, ready or error
    text: str = ""
    code: str = ""  # of an error that was raised on purpose


async def _hold(start: SessionStart, starter: _Starter) -> None:
    with no_collection():
        from moonpool.bootstrap import data_folder, host_folders, open_default_tenant
        from moonpool.configuration.policies import file_digest
        from moonpool.engine.answering import answered_by
        from moonpool.network.rules import parse_domains
        from moonpool.server.named_sessions.host import ClientApprover, SessionHost, SessionIdentity
        from moonpool.server.named_sessions.sockets import SessionFolder

    settings = Settings.load(
        os.environ,
        environment=start.environment,
        backend=start.backend,
        policy=Path(start.policy) if start.policy is not None else None,
    )
    config = load_servers(Path(start.config), os.environ) if start.config is not None else None
    folder = SessionFolder(data_folder(settings, os.environ))
    approver = ClientApprover()
    async with open_default_tenant(
        settings,
        config=config,
        approver=approver,
        environ=os.environ,
        progress=starter.note,
        network=parse_domains(start.network),
    ) as app:
        await app.prove()
        identity = SessionIdentity(
            name=start.name,
            environment=start.environment,
            backend=start.backend,
            config=start.config or "",
            config_digest=start.config_digest,
            policy_digest=file_digest(app.policy),
            network=start.network,
            workspace=start.workspace,
        )
        folders = None if start.workspace is None else host_folders(settings, os.environ, [start.workspace])
        session = app.runtime.session(answered_by(app.caller_grant, approver.responder), folders=folders)
        host = SessionHost(session, app.tool_registry, approver, identity, idle_s=settings.session_idle_s)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, host.stop)
        listener = folder.listen(start.name)
        try:
            starter.ready()
            await host.serve(listener)
        finally:
            folder.remove_socket(start.name)
    folder.tidy(start.name)


class _Starter:
    """The process that started us, until `ready` was sent; after that the descriptor may be reused."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def note(self, step: BuildProgress) -> None:
        self._tell(StartReport(kind="note", text=f"environment {step.environment}: {step.note}"))

    def ready(self) -> None:
        self._tell(StartReport(kind="ready"))
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def error(self, sentence: str, code: str) -> None:
        with suppress(OSError):
            self._tell(StartReport(kind="error", text=sentence, code=code))

    def _tell(self, report: StartReport) -> None:
        if self._fd is not None:
            os.write(self._fd, msgspec.json.encode(report) + b"\n")


def main() -> None:
    """Run the session described by the only argument."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    start = msgspec.json.decode(sys.argv[1], type=SessionStart)
    starter = _Starter(start.ready_fd)
    try:
        keep_memory_private()
        asyncio.run(_hold(start, starter))
    except BrokenPipeError:
        sys.exit(1)  # the process that wanted this session is gone
    except Exception as error:
        if os.environ.get("MOONPOOL_DEBUG") == "1":
            raise
        sys.stderr.write(f"moonpool: {sentence_and_code(error)}\n")
        starter.error(one_sentence(error), code_of(error))
        sys.exit(2)


if __name__ == "__main__":
    main()
