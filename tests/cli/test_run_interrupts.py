"""Whoever stops a run gets its envelope; whoever stops listening gets a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from cli.console import environment
from cli.terminal import Terminal
from commands.process import SCRIPT, run_command

if TYPE_CHECKING:
    from pathlib import Path


STUBBORN = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("ready", flush=True)
while True: time.sleep(1)
"""
PATIENT = "import time\nprint('ready', flush=True)\ntime.sleep(60)"


def test_output_is_shown_while_the_program_runs_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    with Terminal(tmp_path, "run", "-c", PATIENT) as terminal:
        terminal.wait_for("ready")
        terminal.type("\x03")
        ended = terminal.wait_ended()
    assert ended.error_type in {"Cancelled", "KeyboardInterrupt"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_with_an_envelope(tmp_path: Path, number: signal.Signals) -> None:
    with Terminal(tmp_path, "run", "-c", PATIENT) as terminal:
        terminal.wait_for("ready")
        terminal.signal(number)
        ended = terminal.wait_ended()
    assert ended.error_type == "Cancelled"


def test_a_program_that_ignores_the_interrupt_is_killed_by_the_second(tmp_path: Path) -> None:
    with Terminal(tmp_path, "run", "-c", STUBBORN) as terminal:
        terminal.wait_for("ready")
        terminal.signal(signal.SIGINT)
        terminal.signal(signal.SIGINT)
        ended = terminal.wait_ended()
    assert ended.error_type == "Cancelled"


def test_a_stdout_that_nobody_reads_is_named(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as out:
        done = run_command([SCRIPT, "run", "-c", "result = 1"], stdout=out, cwd=tmp_path, env=environment(tmp_path))
    assert done.returncode == 2
    assert b"standard output is gone" in done.stderr


def test_closed_standard_streams_do_no_harm(tmp_path: Path) -> None:
    """Really started: Python finds its streams closed when it starts."""
    command = f"exec {SCRIPT} run -c 'print(1); result = 1' <&- >&- 2>&-"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, env=environment(tmp_path), timeout=60, check=False)
    assert done.returncode == 0
