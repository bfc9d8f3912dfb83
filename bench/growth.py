"""`python -m bench.growth`: what things cost with many live sessions and with many tools. See README.md beside it."""

from __future__ import annotations

import sys

from bench.command import run_command
from bench.suites import GROWTH

if __name__ == "__main__":
    sys.exit(run_command("bench.growth", "Measure how costs grow with live sessions and with tools.", GROWTH))
