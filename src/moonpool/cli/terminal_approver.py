"""Approval on the terminal: shows one call, takes one `y` or `n` (`--approve ask`).

Where it is asked, and by whom else, is `terminal`. A process without a terminal, or in its background, asks nobody.

SECURITY: everything that code, server or model had a hand in is shown inside a frame: each line begins with `│ `, no
line is longer than the terminal is wide, and characters that a terminal would act on, or not show, are written as
escapes. So arguments cannot imitate the question, and of the texts below each other only the first lines begin at the
frame, so none can imitate another one.
"""

from __future__ import annotations

import asyncio
import unicodedata
from typing import TYPE_CHECKING, ClassVar, Final

from moonpool.broker.approval import approve, reject
from moonpool.broker.readable import ARGUMENTS_CHARS_MAX, in_one_line
from moonpool.cli.terminal import WIDTH_MIN
from moonpool.core.approvals import WHOLE_CHARS_MAX
from moonpool.core.hidden_characters import is_seen
from moonpool.core.lookalikes import shown_name

if TYPE_CHECKING:
    from moonpool.broker.approval import ApprovalAnswer, ApprovalRequest
    from moonpool.cli.terminal import Terminal

_NAME_CHARS_MAX: Final = 300
_REASON_CHARS_MAX: Final = 1000  # a rule's note has up to 500
PLAN_CHARS_MAX: Final = 100_000  # of one effect with its remarks
_TOO_LATE: Final = "\nToo late: the question has expired, or its execution has ended. Nothing was answered.\n"
_ASK: Final = "Allow this one call? y = once, n = no{}: "
_ASK_PLAN: Final = "Allow the whole plan, once? y = yes, n = no{}: "
_MORE: Final = ", f = show all of it"
_HANG: Final = "     "
_TRIES_MAX: Final = 3
_YES: Final = frozenset({"y", "yes"})
_NO: Final = frozenset({"n", "no"})


class TerminalApprover:
    """Asks the person at a terminal. An `Approver`; the desk puts one question at a time."""

    together: ClassVar[bool] = False

    def __init__(self, terminal: Terminal, *, name: str) -> None:
        self.terminal, self.name = terminal, name

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        async with self.terminal.question():
            try:
                return await self._ask(request)
            except asyncio.CancelledError:
                self.terminal.write(_TOO_LATE)
                raise
            except OSError as error:
                return reject(request, self.name, f"the terminal failed ({error.strerror})")

    async def _ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        terminal = self.terminal
        terminal.write(question(request, terminal.width()))
        prompt = (_ASK_PLAN if request.listing else _ASK).format(_MORE if request.whole else "")
        tries = 0
        while tries < _TRIES_MAX:
            terminal.write(prompt)
            answer = await terminal.read_line()
            if answer is None:
                return reject(request, self.name, "the terminal was closed")
            if request.whole and answer.lower() == "f":
                terminal.write(question(request, terminal.width(), whole=True))
                continue
            tries += 1
            if answer.lower() in _YES:
                return approve(request, self.name)
            if answer.lower() in _NO:
                return reject(request, self.name, "a person said no")
        terminal.write("No answer that was understood: the call is refused.\n")
        return reject(request, self.name, "no clear answer was given")


def question(request: ApprovalRequest, width: int, *, whole: bool = False) -> str:
    """The frame around one call, with all of its arguments if `whole`. Pure."""
    if request.listing:
        effects = request.whole.split("\n") if whole else request.listing
        listed = [line for effect in effects for line in hanging(visible(effect, PLAN_CHARS_MAX), width)]
        head = framed(visible(request.reason, _REASON_CHARS_MAX), width)
        return "\n┌─ plan\n" + "".join(f"│ {line}\n" for line in (*head, *listed)) + "└─\n"
    server, tool = visible(request.server_id, _NAME_CHARS_MAX), visible(shown_name(request.tool_name), _NAME_CHARS_MAX)
    line = f" in line {request.code_line}" if request.code_line else ""
    arguments = request.whole if whole else request.arguments
    told = [
        f"The code wants to call {server}.{tool}{line}",
        *([visible(request.place, _REASON_CHARS_MAX)] if request.place else []),
        f"because of policy: {visible(request.reason, _REASON_CHARS_MAX)}",
        f"with {visible(in_one_line(arguments), WHOLE_CHARS_MAX if whole else ARGUMENTS_CHARS_MAX)}",
    ]
    lines = [line for text in told for line in hanging(text, width)]
    return "\n┌─ approval\n" + "".join(f"│ {line}\n" for line in lines) + "└─\n"


def visible(text: str, chars_max: int) -> str:
    """`text` on one line, with what a terminal acts on or hides written as escapes."""
    cut = text[:chars_max]
    shown = "".join(char if is_seen(char) else char.encode("unicode_escape").decode() for char in cut)
    return f"{shown} … ({len(text) - chars_max:,} more characters)" if len(text) > chars_max else shown


def hanging(text: str, width: int) -> list[str]:
    """SECURITY: of several texts below each other only their first lines begin at the frame, so none looks like two."""
    first, *rest = framed(text, max(WIDTH_MIN, width - len(_HANG)))
    return [first, *(f"{_HANG}{line}" for line in rest)]


def framed(text: str, width: int) -> list[str]:
    """Cut `text` into lines that fit behind the frame, between words where they are not too long for that."""
    room = width - 3
    lines, line, used = list[str](), "", 0
    for char in text:
        cells = _cells(char)
        if used + cells > room:
            words = line[: line.rfind(" ") + 1]
            kept = words if len(words) > len(line) // 2 else line
            lines.append(kept)
            line = line[len(kept) :]
            used = sum(map(_cells, line))
        line += char
        used += cells
    return [*lines, line]


def _cells(char: str) -> int:
    return 2 if unicodedata.east_asian_width(char) in "WFA" else 1
