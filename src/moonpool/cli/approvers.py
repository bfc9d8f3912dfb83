"""The approvers that answer when policy says ask: `--approve ask|auto|deny|queue`."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

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
        from moonpool.bootstrap.stores import open_default_queue
        from moonpool.cli.config_choice import data_folder

        async with open_default_queue(settings, data_folder(settings), output.say, os.environ) as queue:
            yield queue
        return
    from moonpool.bootstrap.stores import opened_approvals
    from moonpool.cli.config_choice import data_folder
    from moonpool.features.approvals.files import KeptGrants
    from moonpool.terminal.approver import TerminalApprover
    from moonpool.terminal.device import Terminal, open_terminal, user_name

    terminal, grants = open_terminal(), KeptGrants(lambda: opened_approvals(settings, data_folder(settings)))
    if terminal is None:
        yield DenyApprover(output.say, why="there is no terminal to ask on", hint="--approve queue waits for an answer")
        return
    try:
        yield TerminalApprover(Terminal(terminal, output.held), name=f"terminal:{user_name()}", grants=grants)
    finally:
        os.close(terminal)


def responder_beside(approver: Approver) -> RequestResponder | None:
    """The responder that fills in servers' forms: only the person who approves at a terminal."""
    from moonpool.terminal.approver import TerminalApprover
    from moonpool.terminal.forms import TerminalForms

    return TerminalForms(approver.terminal, name=approver.name) if isinstance(approver, TerminalApprover) else None
