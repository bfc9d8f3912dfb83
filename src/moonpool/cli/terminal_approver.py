"""Approval on the terminal: shows one call, takes one `y` or `n` (`--approve ask`).

The question goes to /dev/tty and the answer comes from there, never from stdin or stdout: those carry code and the
envelope. A process without a terminal, or in its background, asks nobody.

SECURITY: everything that code, server or model had a hand in is shown inside a frame: each line begins with `│ `, no
line is longer than the terminal is wide, and characters that a terminal would act on, or not show, are written as
escapes. So arguments cannot imitate the question. What was typed before the question is thrown away.
"""

from __future__ import annotations

import asyncio
import os
import termios
import unicodedata
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Final

from moonpool.broker.approval import approve, reject

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.broker.approval import ApprovalAnswer, ApprovalRequest

_ARGUMENTS_CHARS_MAX: Final = 4000
_NAME_CHARS_MAX: Final = 300
_REASON_CHARS_MAX: Final = 1000  # a rule's note has up to 500
PLAN_CHARS_MAX: Final = 100_000  # of one effect with its remarks
_ASK: Final = "Allow this one call? y = once, n = no: "
_HANG: Final = "     "
_TRIES_MAX: Final = 3
_ANSWER_BYTES_MAX: Final = 4096
_WIDTH_MIN: Final = 20
_YES: Final = frozenset({"y", "yes"})
_NO: Final = frozenset({"n", "no"})


def open_terminal() -> int | None:
    """A descriptor of the controlling terminal, if there is one and we are in its foreground."""
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.tcgetpgrp(fd) == os.getpgrp():
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


class TerminalApprover:
    """Asks the person at a terminal. An `Approver`; the desk puts one question at a time."""

    def __init__(self, fd: int, hold_output: Callable[[], AbstractContextManager[None]], *, name: str) -> None:
        self._fd, self._hold_output, self._name = fd, hold_output, name

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        with self._hold_output():
            try:
                return await self._ask(request)
            except asyncio.CancelledError:
                self._write("\n(no longer needed)\n")
                raise
            except OSError as error:
                return reject(request, self._name, f"the terminal failed ({error.strerror})")

    async def _ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        with suppress(termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)
        self._write(question(request, self._width()))
        for _ in range(_TRIES_MAX):
            self._write("Allow the whole plan, once? y = yes, n = no: " if request.listing else _ASK)
            answer = await self._read_line()
            if answer is None:
                return reject(request, self._name, "the terminal was closed")
            if answer in _YES:
                return approve(request, self._name)
            if answer in _NO:
                return reject(request, self._name, "a person said no")
        self._write("No answer that was understood: the call is refused.\n")
        return reject(request, self._name, "no clear answer was given")

    def _width(self) -> int:
        try:
            return max(_WIDTH_MIN, os.get_terminal_size(self._fd).columns or 80)
        except OSError:
            return 80

    def _write(self, text: str) -> None:
        with suppress(OSError):
            os.write(self._fd, text.encode("utf-8", "replace"))

    async def _read_line(self) -> str | None:
        """One line without its end, in lower case; None at the end of the terminal."""
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str | None] = loop.create_future()
        typed = bytearray()

        def on_input() -> None:
            try:
                piece = os.read(self._fd, _ANSWER_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            typed.extend(piece)
            ended = not piece or b"\n" in piece or b"\r" in piece or len(typed) > _ANSWER_BYTES_MAX
            if ended and not line.done():
                first = typed.replace(b"\r", b"\n").partition(b"\n")[0]
                line.set_result(first.decode("utf-8", "replace").strip().lower() if piece else None)

        loop.add_reader(self._fd, on_input)
        try:
            return await line
        finally:
            loop.remove_reader(self._fd)


def question(request: ApprovalRequest, width: int) -> str:
    """The frame around one call. Pure."""
    if request.listing:
        listed = [line for effect in request.listing for line in hanging(visible(effect, PLAN_CHARS_MAX), width)]
        head = framed(visible(request.reason, _REASON_CHARS_MAX), width)
        return "\n┌─ plan\n" + "".join(f"│ {line}\n" for line in (*head, *listed)) + "└─\n"
    server, tool = visible(request.server_id, _NAME_CHARS_MAX), visible(request.tool_name, _NAME_CHARS_MAX)
    lines = [
        *framed(f"The code wants to call {server}.{tool}", width),
        *framed(f"because of policy: {visible(request.reason, _REASON_CHARS_MAX)}", width),
        *framed(f"with {visible(request.arguments, _ARGUMENTS_CHARS_MAX)}", width),
    ]
    return "\n┌─ approval\n" + "".join(f"│ {line}\n" for line in lines) + "└─\n"


def visible(text: str, chars_max: int) -> str:
    """`text` on one line, with what a terminal acts on or hides written as escapes."""
    cut = text[:chars_max]
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut)
    return f"{shown} … ({len(text) - chars_max:,} more characters)" if len(text) > chars_max else shown


def hanging(text: str, width: int) -> list[str]:
    """SECURITY: of several texts below each other only their first lines begin at the frame, so none looks like two."""
    first, *rest = framed(text, max(_WIDTH_MIN, width - len(_HANG)))
    return [first, *(f"{_HANG}{line}" for line in rest)]


def framed(text: str, width: int) -> list[str]:
    """Cut `text` into lines that fit behind the frame."""
    room = width - 3
    lines, line, used = list[str](), "", 0
    for char in text:
        cells = 2 if unicodedata.east_asian_width(char) in "WFA" else 1
        if used + cells > room:
            lines.append(line)
            line, used = "", 0
        line += char
        used += cells
    return [*lines, line]
