"""A run of tests that fails says which, where their logs are, and how to repeat one alone with its seed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from house.tracked import ROOT

FAILING = """
import pytest
from hypothesis import given, strategies

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"

@given(strategies.integers(0, 1 << 40))
def test_chosen_at_random(number):
    assert number < 1000, number

def test_plain():
    print("said before")
    assert 1 + 1 == 3

def test_fine():
    pass
"""


def pytest_of(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "conftest", *options]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "TEST_LOGS": str(file.parent / "logs")}
    return subprocess.run(
        [*command, str(file)], cwd=ROOT, env=environ, check=False, capture_output=True, encoding="utf-8"
    )


def test_the_last_lines_name_tests_logs_and_the_command_that_repeats_one(tmp_path: Path) -> None:
    file = tmp_path / "test_failing.py"
    file.write_text(FAILING, encoding="utf-8")

    done = pytest_of(file, "-n", "2")

    said = done.stdout.splitlines()
    last = said[next(number for number, line in enumerate(said) if "2 failed, logs in" in line) :]
    logs = [line.partition("log: ")[2] for line in last if "log: " in line]
    texts = [Path(log).read_text(encoding="utf-8") for log in logs]
    assert done.returncode == 1
    assert [name for name in ("test_chosen_at_random", "test_plain") if not any(name in line for line in last)] == []
    assert any("said before" in text and "assert (1 + 1) == 3" in text for text in texts)
    assert last[-2] == "repeat one of them alone:"
    assert re.search(r"--hypothesis-seed=\d+ ", last[-1])
    assert f"seed: {re.search(r'seed=([0-9]+)', last[-1])[1]} " in done.stdout  # pyright: ignore[reportOptionalSubscript]


@pytest.mark.slow
def test_the_seed_makes_the_same_choices_again(tmp_path: Path) -> None:
    file = tmp_path / "test_failing.py"
    file.write_text(FAILING.replace("assert number < 1000, number", "print(number)"), encoding="utf-8")
    options = ("-n", "0", "-s", "--hypothesis-seed=7", "-k", "random")

    first, second = (re.findall(r"^\d+$", pytest_of(file, *options).stdout, re.MULTILINE) for _ in range(2))

    assert first == second
    assert len(set(first)) > 5


def test_the_command_can_be_pasted_into_a_shell() -> None:
    from failures import repeat_command

    nodeid = "tests/a/test_b.py::test_c[it's 'odd' $HOME]"

    assert shlex.split(repeat_command(nodeid, 5))[-1] == nodeid
