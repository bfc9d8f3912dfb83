"""Approval on the terminal: shows one call and reads one answer (`--approve ask`), for this call or also for further
ones.

`terminal` reserves the terminal. A process without a terminal, or in its background, asks nobody. Answers for further
calls of the run are kept here; those for longer in `grants`, as by `moonpool approvals`.

SECURITY: all text from code, servers or models is shown inside a frame: each line begins with `│ `, no line is longer
than the terminal is wide, and characters that a terminal would act on or hide are escaped. So arguments cannot imitate
the question; continuation lines are indented, so no entry can imitate another. SECURITY: further calls can be approved
only by somebody who has seen all of this one, never if the question is due to earlier calls, and, for what policy
reserves for a person, only by an answer to such a question.
"""

from __future__ import annotations

import asyncio
import unicodedata
from typing import TYPE_CHECKING, ClassVar, Final

from moonpool.core.errors import MoonpoolError
from moonpool.core.hidden_characters import is_seen
from moonpool.core.lookalikes import shown_name
from moonpool.features.approvals.model import GRANT_S_MAX, WHOLE_CHARS_MAX, Answerer
from moonpool.features.approvals.service import GrantTerms
from moonpool.pipeline.approval import approve, reject
from moonpool.pipeline.readable_json import ARGUMENTS_CHARS_MAX, in_one_line
from moonpool.sandboxes.shielding import in_thread
from moonpool.terminal.device import WIDTH_MIN

if TYPE_CHECKING:
    from moonpool.features.approvals.files import KeptGrants
    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalGrant, ApprovalRequest
    from moonpool.terminal.device import Terminal

_NAME_CHARS_MAX: Final = 300
_REASON_CHARS_MAX: Final = 1000  # a rule's note has up to 500
PLAN_CHARS_MAX: Final = 100_000  # of one call in a plan with its remarks
_TOO_LATE: Final = "\nToo late: the question has expired, or its execution has ended. Nothing was answered.\n"
_ASK: Final = "Allow this call? y = once, n = no, n WHY = no and tell the code why"
_ASK_PLAN: Final = "Allow the whole plan, once? y = yes, n = no, n WHY = no and tell the code why"
_MORE: Final = ", f = show all of it"
_FURTHER: Final = frozenset({"r", "s", "a"})
_FURTHER_ASKED: Final = (
    ",\nr = all calls of this tool in this run, s = always with these arguments, "
    f"a = always ({GRANT_S_MAX / 86_400:.0f} days)"
)
_HANG: Final = "     "
_TRIES_MAX: Final = 3
_YES: Final = frozenset({"y", "yes"})
_NO: Final = frozenset({"n", "no"})


class TerminalApprover:
    """Asks the person at a terminal. An `Approver`; the approval service puts one question at a time."""

    together: ClassVar[bool] = False

    def __init__(self, terminal: Terminal, *, name: str, grants: KeptGrants) -> None:
        """`grants` keeps approval grants."""
        self.terminal, self.name, self._grants = terminal, name, grants
        # calls that need no further question -> whether human-only ones, too
        self._in_run: dict[tuple[str, ...], bool] = {}

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        if _may_stand(request) and any(
            key in self._in_run and (self._in_run[key] or not request.human_only) for key in _keys(request)
        ):
            return approve(request, f"for this run by {self.name}")
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
        tries, seen_whole = 0, False
        while tries < _TRIES_MAX:
            terminal.write(self._prompt(request, seen=seen_whole or not request.cut))
            answer = await terminal.read_line()
            if answer is None:
                return reject(request, self.name, "the terminal was closed")
            word, _, note = answer.partition(" ")
            answer = answer.lower()
            if request.whole and answer == "f":
                terminal.write(question(request, terminal.width(), whole=True))
                seen_whole = True
                continue
            tries += 1
            if answer in _YES:
                return approve(request, self.name)
            if answer in _NO or word.lower() == "n":
                return reject(request, self.name, note.strip() or "a person said no")
            if answer in _FURTHER and await self._allow_further(request, answer, seen_whole=seen_whole):
                return approve(request, self.name)
        terminal.write("No answer that was understood: the call is refused.\n")
        return reject(request, self.name, "no clear answer was given")

    def _prompt(self, request: ApprovalRequest, *, seen: bool) -> str:
        further = _FURTHER_ASKED if seen and _may_stand(request) else ""
        return (_ASK_PLAN if request.is_plan else _ASK) + (_MORE if request.whole else "") + further + ": "

    async def _allow_further(self, request: ApprovalRequest, word: str, *, seen_whole: bool) -> bool:
        """Allow further calls, of this run (`r`) or also of later ones; False with a message if that
        is not possible.
        """
        if not _may_stand(request):
            return self._refuse_further("the question is due to earlier calls, or is about a plan")
        if request.cut and not seen_whole:
            return self._refuse_further("not all of this one was shown")
        if word != "r":
            terms = GrantTerms(GRANT_S_MAX, any_arguments=word == "a")
            try:
                given = await self._give(request, terms, saw_whole=seen_whole)
            except MoonpoolError as error:
                return self._refuse_further(visible(str(error), _REASON_CHARS_MAX))
            self.terminal.write(f"To be asked again: moonpool approvals rules --remove {given.answer_id}\n")
        tool, this_call = _keys(request)
        key = this_call if word == "s" else tool
        self._in_run[key] = self._in_run.get(key, False) or request.human_only
        return True

    async def _give(self, request: ApprovalRequest, terms: GrantTerms, *, saw_whole: bool) -> ApprovalGrant:
        """INVARIANT: an answer that came too late gives no grant."""
        by, given = Answerer(name=self.name, person=True), list["ApprovalGrant"]()
        try:
            await in_thread(lambda: given.append(self._grants.give(request, by, terms, saw_whole=saw_whole)))
        except asyncio.CancelledError:
            if given:
                await in_thread(lambda: self._grants.remove(given[0], by))
            raise
        return given[0]

    def _refuse_further(self, why: str) -> bool:
        self.terminal.write(f"Not for further calls: {why}.\n")
        return False


def _may_stand(request: ApprovalRequest) -> bool:
    """Whether an answer may cover further calls (`moonpool.features.approvals.queue_approver`)."""
    return bool(request.tool_digest) and not request.of_the_moment


def _keys(request: ApprovalRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys for all calls of one tool in one run, and for those with the same arguments."""
    server = (request.server_id, request.server_digest)
    tool = (request.run_id, request.principal, *server, request.tool_name, request.tool_digest)
    return tool, (*tool, request.arguments_digest)


def question(request: ApprovalRequest, width: int, *, whole: bool = False) -> str:
    """The framed text of one call, with all of its arguments if `whole`. Pure."""
    if request.is_plan:
        effects = (request.whole if whole else request.arguments).split("\n")
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
    """`text` on one line, with characters that a terminal acts on or hides escaped."""
    cut = text[:chars_max]
    shown = "".join(char if is_seen(char) else char.encode("unicode_escape").decode() for char in cut)
    return f"{shown} … ({len(text) - chars_max:,} more characters)" if len(text) > chars_max else shown


def hanging(text: str, width: int) -> list[str]:
    """SECURITY: continuation lines are indented, so one entry cannot look like two."""
    first, *rest = framed(text, max(WIDTH_MIN, width - len(_HANG)))
    return [first, *(f"{_HANG}{line}" for line in rest)]


def framed(text: str, width: int) -> list[str]:
    """Wrap `text` to the width of the frame, between words if possible."""
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
