"""What `moonpool run` prints on a terminal instead of its JSON line (docs/decisions/0046): a few lines for a person.

The code's output is above them: it went to stderr while the code ran. Every line of ours begins with a label; text of
code or servers is indented behind it, also on continuation lines.

SECURITY: text comes from code and servers. Control, bidirectional and invisible characters are escaped, no line is
longer than the terminal is wide, and their number is bounded: nothing can redraw the screen or begin like a line of
ours.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from moonpool.cli.printer import Colour
from moonpool.core.lookalikes import shown_name
from moonpool.terminal.approver import framed, visible
from moonpool.terminal.device import WIDTH_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from moonpool.core.audit import JournalReader

_LABEL: Final = 9
_RESULT_LINES_MAX: Final = 20
_TEXT_LINES_MAX: Final = 8
_NAMES_MAX: Final = 6
_LISTED_MAX: Final = 10
_RECORDS_MAX: Final = 2000
_CHARS_MAX: Final = 20_000  # of one string; a terminal shows less


@dataclass(frozen=True, slots=True)
class RunView:
    """The view at the terminal `fd`; names of called tools come from the audit journal."""

    fd: int
    journal: JournalReader

    def __call__(self, line: bytes) -> bytes:
        """The lines for `line`, an envelope. If the view fails, `line` itself is returned, so that the envelope is not
        lost.
        """
        try:
            envelope = json.loads(line)
            lines = _Lines(_width(self.fd), Colour.on(self.fd))
            lines.envelope(envelope, _called(self.journal, envelope))
            return ("\n".join(lines.done) + "\n").encode("utf-8", "backslashreplace")
        except Exception:  # noqa: BLE001
            return line


@dataclass(slots=True)
class _Lines:
    width: int
    colour: Colour
    done: list[str] = field(default_factory=list[str])

    def envelope(self, envelope: dict[str, Any], called: Counter[str]) -> None:
        result, metrics = envelope["result"], envelope["result"]["metrics"]
        if result["ok"]:
            self._result(result["data"])
        else:
            error = result["error"]
            self._put("error", f"{error['type']}: {error['message']}".split("\n"), tone="red")
        if note := result.get("note"):
            self._put("note", [str(note)])
        if count := metrics.get("tool_calls"):
            self._put("calls", [f"{count:,}{': ' if called else ''}{_names(called)}"])
        if metrics.get("dry_run"):
            self._put("plan", [f"a dry run; calls planned and not made: {metrics.get('planned_calls', 0):,}"])
        self._list("failed", result.get("failed_calls"), _failure, tone="red")
        self._list("files", result.get("files"), _file, more=result.get("more_files"))
        self._put(*_end(envelope), tone="green" if result["ok"] else "red")

    def _result(self, data: Any) -> None:
        if data is None:
            return
        shown = data[:_CHARS_MAX].split("\n") if isinstance(data, str) else _json(data, self._room)
        self._put("result", shown, lines_max=_RESULT_LINES_MAX)

    def _list(
        self, label: str, given: Any, told: Callable[[dict[str, Any]], str], *, more: Any = None, tone: str = "bold"
    ) -> None:
        """The first items of an optional list and how many `more` it has; also takes an object with
        list and `count`.
        """
        members = cast("dict[str, Any]", given) if isinstance(given, dict) else {"first": given}
        lists = [cast("list[dict[str, Any]]", one) for one in members.values() if isinstance(one, list)]
        listed = lists[0] if lists else []
        count = members.get("count") if isinstance(given, dict) else len(listed) + (more or 0)
        shown = [told(one) for one in listed[:_LISTED_MAX]]
        if isinstance(count, int) and count > len(shown):
            shown.append(f"{count - len(shown):,} more")
        for place, text in enumerate(shown):
            self._put("" if place else label, [text], tone=tone, lines_max=2)

    @property
    def _room(self) -> int:
        return max(WIDTH_MIN, self.width) - _LABEL

    def _put(self, label: str, texts: Sequence[str], *, tone: str = "bold", lines_max: int = _TEXT_LINES_MAX) -> None:
        """Add a label with its lines. SECURITY: the only function that adds to `done`."""
        pieces = [piece for text in texts for piece in framed(visible(text, _CHARS_MAX), self._room + 3)]
        left_out = len(pieces) - lines_max
        if left_out > 0:
            pieces = [*pieces[:lines_max], f"… {left_out:,} more lines; --json prints all of it"[: self._room]]
        for place, piece in enumerate(pieces):
            head = self.colour.of(tone, f"{label:{_LABEL}}") if label and not place else " " * _LABEL
            self.done.append(f"{head}{piece}")


def _json(data: Any, room: int) -> list[str]:
    """On one line if it fits, else one line per member or item."""
    if len(whole := json.dumps(data, ensure_ascii=False)) <= room or not isinstance(data, dict | list):
        return [whole]
    if isinstance(data, dict):
        members = cast("dict[str, Any]", data).items()
        lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in members]
    else:
        lines = [json.dumps(item, ensure_ascii=False) for item in cast("list[Any]", data)]
    opens, closes = whole[0], whole[-1]
    last = len(lines) - 1
    return [f"{' ' if place else opens}{line}{closes if place == last else ','}" for place, line in enumerate(lines)]


def _end(envelope: dict[str, Any]) -> tuple[str, list[str]]:
    asked = {"APPROVED": "approved", "REJECTED": "not approved", "EXPIRED": "approval expired"}
    told = [f"{envelope['duration_ms'] / 1000:.1f} s", asked.get(envelope["approval_state"], ""), envelope["run_id"]]
    return "ok" if envelope["result"]["ok"] else "failed", [" · ".join(filter(None, told))]


def _failure(call: dict[str, Any]) -> str:
    return f"{shown_name(str(call['tool']))}: {call['type']}: {call['message']}"


def _file(file: dict[str, Any]) -> str:
    about = [f"{file['bytes']:,} bytes", *(str(file[name]) for name in ("mime", "path") if file.get(name))]
    return f"{file['name']} ({', '.join(about)})"


def _called(journal: JournalReader, envelope: dict[str, Any]) -> Counter[str]:
    """Called tools with their number of calls; empty if the journal cannot be read."""
    if not envelope["result"]["metrics"].get("tool_calls"):
        return Counter()
    try:
        rows = list(journal.rows(run_id=envelope["run_id"], tail=_RECORDS_MAX))
    except Exception:  # noqa: BLE001  the total counts do not need it
        return Counter()
    calls = (row.to_json() for row in rows if row.kind == "call_outcome")
    return Counter(f"{call['server_id']}.{shown_name(str(call['tool_name']))}" for call in calls)


def _names(called: Counter[str]) -> str:
    def told() -> Iterator[str]:
        for name, count in called.most_common(_NAMES_MAX):
            yield f"{name} x{count:,}" if count > 1 else name
        if len(called) > _NAMES_MAX:
            yield f"{len(called) - _NAMES_MAX:,} more tools"

    return ", ".join(told())


def _width(fd: int) -> int:
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return 80
