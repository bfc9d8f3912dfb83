"""`moonpool replay` and `moonpool recordings` as a user types them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apps import fixture_server
from cli.console import moonpool, run_code, write_config

if TYPE_CHECKING:
    from pathlib import Path

CODE = "from servers import echo\nprint('hello')\nresult = (await echo.text(text='a')).data"


@pytest.mark.req("H-065")
def test_an_execution_is_listed_replayed_and_forgotten(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"echo": fixture_server("echo.py")})
    run_id = run_code(tmp_path, CODE, "--config", config).envelope["run_id"]
    edited = tmp_path / "edited.py"
    edited.write_text(CODE.replace("text='a'", "text='b\\x1b[2J'"), encoding="utf-8")
    listed = [json.loads(line) for line in moonpool(tmp_path, "recordings", "list", "--json").stdout.splitlines()]
    same = moonpool(tmp_path, "replay", "last")
    other = moonpool(tmp_path, "replay", "last", "--code", str(edited))
    removed = moonpool(tmp_path, "recordings", "remove", "last")  # replays are not the last
    gone = moonpool(tmp_path, "replay", run_id)
    assert run_id in {one["run_id"] for one in listed}
    assert (same.exit_code, b": same, ran to its end" in same.stdout) == (0, True)
    assert (other.exit_code, b"first differing call: call 1, echo.text" in other.stdout) == (1, True)
    assert b"\x1b" not in other.stdout
    assert removed.stdout == b"removed 1 recording\n"
    assert "is not recorded" in gone.sentence


def test_what_cannot_be_replayed_or_removed_is_one_sentence(tmp_path: Path) -> None:
    missing = tmp_path / "none.py"
    assert "is no execution" in moonpool(tmp_path, "replay", "nonsense").sentence
    assert "cannot be read" in moonpool(tmp_path, "replay", f"run_{'0' * 32}", "--code", str(missing)).sentence
    assert "give --all" in moonpool(tmp_path, "recordings", "remove").sentence
    none = moonpool(tmp_path, "recordings", "remove", f"run_{'0' * 32}")
    assert (none.exit_code, none.stdout) == (1, b"removed 0 recordings\n")
