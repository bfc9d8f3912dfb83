"""`python -m bench.memory`: private memory of sandboxes and sessions, beside peers. See README.md beside this file."""

from __future__ import annotations

import sys

from bench.command import run_command
from bench.suites import MEMORY

if __name__ == "__main__":
    sys.exit(run_command("bench.memory", "Read the private memory of sandboxes and sessions.", MEMORY))
