"""`python -m bench.latency`: how long one of each thing takes, beside its peers. See README.md beside this file."""

from __future__ import annotations

import sys

from bench.command import run_command
from bench.suites import LATENCY

if __name__ == "__main__":
    sys.exit(run_command("bench.latency", "Time single executions, tool calls, starts and commands.", LATENCY))
