"""Holds all conversations: every task through Moonpool and through CodeMode, over the same servers and files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.conversations.meter import converse
from bench.conversations.ours import SCRIPTS
from bench.conversations.tasks import TASKS
from bench.conversations.theirs import scripts
from bench.conversations.world import make_place, ours, theirs, warm_up
from bench.peers.venvs import PeerMissingError
from bench.world import new_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp import Client

    from bench.conversations.meter import Count, Script
    from bench.conversations.world import Place

OURS: Final = "Moonpool"
THEIRS: Final = "CodeMode"
THEIRS_LIMITED: Final = "CodeMode, search limit 5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Counts by side, then by task; a side that could not be had is in `missing` with the reason."""

    counts: dict[str, dict[str, Count]]
    missing: dict[str, str]

    def totals(self) -> dict[str, int]:
        """Read and written by side, over the tasks that every side ended right."""
        right = [task.name for task in TASKS if all(side[task.name].right for side in self.counts.values())]
        return {side: sum(counts[task].total for task in right) for side, counts in self.counts.items()}

    def all_right(self) -> bool:
        return all(count.right for counts in self.counts.values() for count in counts.values())

    def to_json(self) -> dict[str, Any]:
        shown = {
            side: {
                task: {
                    "read": count.read,
                    "read_total": count.read_total,
                    "wrote": count.wrote,
                    "turns": count.turns,
                    "repairs": count.repairs,
                    "right": count.right,
                }
                for task, count in counts.items()
            }
            for side, counts in self.counts.items()
        }
        return {"sides": shown, "totals": self.totals(), "missing": self.missing}


async def compare(*, peers: bool, quick: bool, show: Callable[[str], None]) -> Compared:
    """Every side does every task. `show` is given all texts. Raises ScriptError, PeerMissingError without servers.

    `quick`: CodeMode as it comes and no other.
    """
    counts = {OURS: await _side(OURS, SCRIPTS, ours, show)}
    missing: dict[str, str] = {}
    sides: list[tuple[str, int | None]] = [(THEIRS, None), (THEIRS_LIMITED, 5)]
    for side, limit in sides[: 0 if not peers else 1 if quick else 2]:
        try:
            counts[side] = await _side(side, scripts(limit), theirs, show)
        except PeerMissingError as error:
            missing[side] = str(error)
    return Compared(counts=counts, missing=missing)


async def _side(
    side: str,
    said: Sequence[Script],
    opened: Callable[[Place], AbstractAsyncContextManager[Client]],
    show: Callable[[str], None],
) -> dict[str, Count]:
    folder = new_folder()
    try:
        files = folder / "files"
        files.mkdir()
        expected = [task.prepare(files) for task in TASKS]  # first: a server starts only where its files are
        place = make_place(folder, files)
        if opened is ours:
            await warm_up(place)
        counts: dict[str, Count] = {}
        for task, script, answer in zip(TASKS, said, expected, strict=True):
            async with opened(place) as client:
                count = await converse(client, script, folder=files, expected=answer)
            count.right &= task.proof is None or task.proof(files) == answer
            counts[task.name] = count
            show(f"\n==== {side}: {task.name}\n" + "\n----\n".join(count.texts))
        return counts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def task_table(compared: Compared) -> list[str]:
    """One line per task and side, then the sums."""
    lines = [f"{'task':26}{'through':26}{'read':>7}{'wrote':>7}{'turns':>7}{'repairs':>9}  ended"]
    for task in TASKS:
        for side, counts in compared.counts.items():
            one = counts[task.name]
            figures = f"{one.read_total:7,}{one.wrote:7,}{one.turns:7}{one.repairs:9}"
            lines.append(f"{task.name:26}{side:26}{figures}  {'right' if one.right else 'WRONG'}")
    lines.append("\nread and written, over the tasks that all of them ended right")
    lines += [f"{'':26}{side:26}{total:7,}" for side, total in compared.totals().items()]
    return [*lines, *(f"{side} is missing: {why}" for side, why in compared.missing.items())]
