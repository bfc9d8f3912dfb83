"""Processes are counted right while threads and other processes come and go."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from bench.processes import descendants

from process_tree import descendants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

WAITS = "import sys; sys.stdin.read()"
FAMILY = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAITS!r}])"


@pytest.mark.slow
@pytest.mark.parametrize("look", [descendants, descendants_of])
def test_no_process_is_missed_while_threads_end_and_children_are_reaped(look: Callable[[int], Collection[int]]) -> None:
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=subprocess.PIPE) as child:
        while not (grandchildren := set(look(child.pid))):
            pass
        coming_and_going = threading.Thread(target=come_and_go)
        coming_and_going.start()
        missed = 0
        while coming_and_going.is_alive():
            missed += not {child.pid, *grandchildren} <= {*look(os.getpid())}
        assert child.stdin is not None
        child.stdin.close()
    assert missed == 0


def come_and_go() -> None:
    for _ in range(20):
        subprocess.run(["/bin/true"], check=True)
        for _ in range(100):
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()
