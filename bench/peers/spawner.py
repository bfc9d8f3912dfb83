"""A small process that starts other programs and takes their time. Runs alone: `python -I -S -c <this file>`.

A program started from the big benchmark process would pay for that process's size; started from here it does not. It
also runs under another uid where the benchmark is root. Standard library only; one JSON line in, one out.
"""

import json
import os
import sys
import time
from typing import Any

FILTER_FD = 19  # where bubblewrap is told to read its filter


def start(argv: list[str], env: dict[str, str], filter_fd: int | None) -> tuple[int, int, float]:
    read, write = os.pipe2(os.O_CLOEXEC)
    actions = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
    given = [write]
    if filter_fd is not None:  # opened anew: two at a time must not share one position
        given.append(os.open(f"/proc/self/fd/{filter_fd}", os.O_RDONLY | os.O_CLOEXEC))
        actions.append((os.POSIX_SPAWN_DUP2, given[-1], FILTER_FD))
    began = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=actions)
    for fd in given:
        os.close(fd)
    return pid, read, began


def run(order: dict[str, Any]) -> dict[str, Any]:
    """Start `count` programs, `in_flight` at a time; what each prints must fit into a pipe (64 KiB)."""
    running: dict[int, tuple[int, float]] = {}
    seconds: list[float] = []
    outputs: set[str] = set()
    codes: set[int] = set()
    left, began = order["count"], time.perf_counter()
    while left or running:
        while left and len(running) < order["in_flight"]:
            pid, read, started = start(order["argv"], order["env"], order.get("filter_fd"))
            running[pid] = (read, started)
            left -= 1
        pid, status = os.waitpid(-1, 0)
        ended = time.perf_counter()
        read, started = running.pop(pid)
        seconds.append(ended - started)
        outputs.add(os.read(read, 65536).decode(errors="replace"))
        os.close(read)
        codes.add(os.waitstatus_to_exitcode(status))
    total = time.perf_counter() - began
    return {"seconds": seconds, "total": total, "outputs": sorted(outputs), "codes": sorted(codes)}


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
