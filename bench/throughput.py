"""`python -m bench.throughput`: how many executions a second, by how many are in flight. See README.md beside it."""

from __future__ import annotations

import sys

from bench.command import run_command
from bench.suites import THROUGHPUT

if __name__ == "__main__":
    sys.exit(run_command("bench.throughput", "Count executions per second against concurrency.", THROUGHPUT))
