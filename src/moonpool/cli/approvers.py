"""Who answers when policy says ask: `--approve ask|auto|deny`."""

from __future__ import annotations

import getpass
import os
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.broker.approval import Approver
    from moonpool.cli.program_output import ProgramOutput


class Approve(StrEnum):
    """Choices of `--approve`."""

    ASK = "ask"
    AUTO = "auto"
    DENY = "deny"


@contextmanager
def open_approver(choice: Approve, output: ProgramOutput) -> Generator[Approver]:
    """Yield the approver; `ask` without a terminal denies and names the rule that would allow the call."""
    from moonpool.broker.approval import AutoApprover, DenyApprover

    if choice is Approve.AUTO:
        yield AutoApprover()
        return
    if choice is Approve.DENY:
        yield DenyApprover(output.say, why="--approve deny was given")
        return
    from moonpool.cli.terminal_approver import TerminalApprover, open_terminal

    terminal = open_terminal()
    if terminal is None:
        yield DenyApprover(output.say, why="there is no terminal to ask on")
        return
    try:
        yield TerminalApprover(terminal, output.held, name=f"terminal:{user_name()}")
    finally:
        os.close(terminal)


def user_name() -> str:
    """The person's login name, or the uid where there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.geteuid()}"
