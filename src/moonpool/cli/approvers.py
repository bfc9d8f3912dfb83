"""The approvers that answer when policy says ask: `--approve ask|auto|deny|queue`."""

from __future__ import annotations

import getpass
import os
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from moonpool.cli.program_output import ProgramOutput
    from moonpool.pipeline.approval import Approver
    from moonpool.pipeline.request_responder import RequestResponder
    from moonpool.settings import Settings


class Approve(StrEnum):
    """The choices of `--approve`."""

    ASK = "ask"
    AUTO = "auto"
    DENY = "deny"
    QUEUE = "queue"


@asynccontextmanager
async def open_approver(choice: Approve, output: ProgramOutput, settings: Settings) -> AsyncGenerator[Approver]:
    """Yield the approver; `ask` without a terminal denies and says how to allow the call."""
    from moonpool.pipeline.approval import AutoApprover, DenyApprover

    if choice is Approve.AUTO:
        yield AutoApprover()
        return
    if choice is Approve.DENY:
        yield DenyApprover(output.say, why="--approve deny was given")
        return
    if choice is Approve.QUEUE:
        async with open_queue(settings, output.say) as queue:
            yield queue
        return
    from moonpool.cli.approval_files import GrantFiles
    from moonpool.cli.config_choice import data_folder
    from moonpool.cli.terminal import Terminal, open_terminal
    from moonpool.cli.terminal_approver import TerminalApprover

    terminal, grants = open_terminal(), GrantFiles(data_folder(settings))
    if terminal is None:
        yield DenyApprover(output.say, why="there is no terminal to ask on", hint="--approve queue waits for an answer")
        return
    try:
        yield TerminalApprover(Terminal(terminal, output.held), name=f"terminal:{user_name()}", grants=grants)
    finally:
        os.close(terminal)


def responder_beside(approver: Approver) -> RequestResponder | None:
    """The responder that fills in servers' forms: only the person who approves at a terminal."""
    from moonpool.cli.terminal_approver import TerminalApprover
    from moonpool.cli.terminal_forms import TerminalForms

    return TerminalForms(approver.terminal, name=approver.name) if isinstance(approver, TerminalApprover) else None


@asynccontextmanager
async def open_queue(settings: Settings, say: Callable[[str], None]) -> AsyncGenerator[Approver]:
    """Yield the approver whose questions `moonpool approvals` answers."""
    import asyncio

    from moonpool.cli.config_choice import data_folder
    from moonpool.features.approvals.notification import Announcer
    from moonpool.features.approvals.queue_approver import QueueApprover
    from moonpool.features.approvals.table import ApprovalStore
    from moonpool.store.paths import approvals_path
    from moonpool.store.process_marks import is_gone, own_mark

    store = ApprovalStore(approvals_path(data_folder(settings)), is_gone=is_gone)
    announcer = Announcer(settings.approval_command, os.environ)
    try:
        async with QueueApprover(store, owner=own_mark(), report=say, announcer=announcer) as approver:
            yield approver
    finally:
        await asyncio.to_thread(store.close)


def user_name() -> str:
    """The person's login name, or the uid if there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.geteuid()}"
