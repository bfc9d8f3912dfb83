"""What the lines of executions may take in memory, and what readers find of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from moonpool.engine.sandbox_runs import kept_lines
from moonpool.engine.sandbox_runs.base import RunResult, SandboxOrder
from moonpool.engine.sandbox_runs.kept_lines import LINES_BYTES_LEAST, LINES_BYTES_MAX, KeptLines, Room, order_bytes
from moonpool.engine.sandbox_runs.running import output_line, result_line

if TYPE_CHECKING:
    import pytest

WIDE = "\U0001f600" * 16_384
"""64 KiB, as Python keeps it and as UTF-8."""


def filled(room: Room, count: int = 200, text: str = WIDE) -> KeptLines:
    lines = KeptLines(room)
    for seq in range(1, count + 1):
        lines.add(output_line("stdout", text, seq))
    return lines


def test_bytes_count_and_not_characters() -> None:
    room = Room()
    filled(room)

    assert LINES_BYTES_MAX <= room.used <= LINES_BYTES_MAX + 2 * sys.getsizeof(WIDE)


def test_short_lines_count_what_python_needs_for_them() -> None:
    room = Room()
    first = filled(room, 12_000, "x").after(0)

    assert room.used < LINES_BYTES_MAX + 1000
    assert first is not None
    assert first.seq > 2_000


def test_a_reader_finds_the_next_line_that_is_kept() -> None:
    lines = filled(Room())
    oldest = lines.after(0)
    assert oldest is not None
    following = [lines.after(seq) for seq in (oldest.seq, 199, 200, 900)]

    assert oldest.seq > 100
    assert [one and one.seq for one in following] == [oldest.seq + 1, 200, None, None]


def test_a_full_room_leaves_each_a_little_and_the_newest_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_lines, "ROOM_BYTES", LINES_BYTES_MAX // 2)
    room = Room()
    every = [filled(room) for _ in range(10)]
    kept = [lines.after(0) for lines in every]

    assert room.used <= LINES_BYTES_MAX // 2 + len(every) * (LINES_BYTES_LEAST + 2 * sys.getsizeof(WIDE))
    assert all(one is not None and one.seq >= 198 for one in kept[1:])


def test_a_result_counts_and_what_is_forgotten_does_not() -> None:
    room = Room()
    lines = filled(room, 3)
    used = room.used
    result = RunResult(status="success", success=True, stdout=WIDE, stderr="", exit_code=0, error=None)
    lines.add(result_line("trc_1", result, 4))
    with_result = room.used
    lines.forget()
    last = lines.after(0)

    assert with_result > used + sys.getsizeof(WIDE)
    assert room.used == 0
    assert last is not None
    assert last.kind == "result"


def test_an_order_counts_its_code_and_variables() -> None:
    order = SandboxOrder(code="é" * 1000 + WIDE, variables={"A": "x" * 5000})

    assert order_bytes(order) > 4 * 17_384 + 5000
