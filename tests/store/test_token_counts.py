"""Kept token counts: what is saved is loaded, and whatever else lies there is counted anew."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

from moonpool.core.json import digest_bytes
from moonpool.features.usage import table as token_counts
from moonpool.features.usage.model import ToolTokens
from moonpool.features.usage.table import TokenCountStore

if TYPE_CHECKING:
    from pathlib import Path

KEY, OTHER = digest_bytes(b"one"), digest_bytes(b"two")
TOTALS = ToolTokens(tools=3, upfront=900, manifest=80, own_tools=499)


def test_counts_and_totals_come_back_to_another_process(tmp_path: Path) -> None:
    store = TokenCountStore(tmp_path / "tokens")
    assert store.save_counts({KEY: 7})
    assert store.save_counts({OTHER: 9})
    assert store.save_totals(KEY, TOTALS)
    again = TokenCountStore(tmp_path / "tokens")
    assert again.load_counts() == {KEY: 7, OTHER: 9}
    assert (again.load_totals(KEY), again.load_totals(OTHER)) == (TOTALS, None)


def test_files_are_closed_to_others(tmp_path: Path) -> None:
    store = TokenCountStore(tmp_path / "tokens")
    store.save_counts({KEY: 7})
    store.save_totals(KEY, TOTALS)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tokens").iterdir()}
    assert modes == {"counts.json": 0o600, "totals.json": 0o600}
    assert stat.S_IMODE((tmp_path / "tokens").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff{", id="not JSON"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"[1]", id="a list"),
        pytest.param(b'{"format": 2, "o200k": {}}', id="another format"),
        pytest.param(b'{"format": 1, "o200k": [1]}', id="no counts"),
        pytest.param(json.dumps({"format": 1, "o200k": {KEY: -1, OTHER: True, "x": 1}}).encode(), id="no numbers"),
        pytest.param(json.dumps({"format": 1, "o200k": {KEY: {"tools": 1, "upfront": "2"}}}).encode(), id="no totals"),
        pytest.param(b" " * (token_counts.COUNTS_BYTES_MAX + 1), id="too large"),
    ],
)
def test_a_damaged_file_is_as_good_as_none_and_is_written_anew(tmp_path: Path, content: bytes) -> None:
    store = TokenCountStore(tmp_path)
    for name in ("counts.json", "totals.json"):
        (tmp_path / name).write_bytes(content)
    assert (store.load_counts(), store.load_totals(KEY)) == ({}, None)
    assert store.save_counts({KEY: 7})
    assert store.save_totals(KEY, TOTALS)
    assert (store.load_counts(), store.load_totals(KEY)) == ({KEY: 7}, TOTALS)


def test_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_counts, "COUNTS_MAX", 2)
    monkeypatch.setattr(token_counts, "TOTALS_MAX", 2)
    store = TokenCountStore(tmp_path)
    keys = [digest_bytes(str(number).encode()) for number in range(3)]
    for number, key in enumerate(keys):
        store.save_counts({key: number})
        store.save_totals(key, TOTALS)
    assert store.load_counts() == {keys[1]: 1, keys[2]: 2}
    assert [store.load_totals(key) for key in keys] == [None, TOTALS, TOTALS]


def test_a_folder_that_cannot_be_used_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = TokenCountStore(tmp_path / "file" / "tokens")
    assert not store.save_counts({KEY: 7})
    assert not store.save_totals(KEY, TOTALS)
    assert (store.load_counts(), store.load_totals(KEY)) == ({}, None)
