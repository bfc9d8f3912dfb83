"""`python -m bench`: every group, one table, `bench/results/latest.json`. See README.md beside this file."""

from __future__ import annotations

import sys

from bench.command import run_command
from bench.suites import EVERYTHING


def main(arguments: list[str] | None = None) -> int:
    return run_command("bench", "Measure Moonpool beside its alternatives.", EVERYTHING, arguments)


if __name__ == "__main__":
    sys.exit(main())
