"""What a run that fails leaves behind: a log for each failed test, and last lines that say how to repeat one alone."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

LOGS: Final = Path(os.environ.get("TEST_LOGS") or Path(__file__).resolve().parents[1] / "build" / "test-logs")
_RUNS_KEPT: Final = 3
_NAMED_MAX: Final = 20


class Failures:
    """Collects the reports of failed tests in the process that runs or distributes them."""

    def __init__(self, seed: int, tmp: str) -> None:
        """`seed` of this run's random choices; `tmp` says where the folders of tests are kept."""
        self._seed, self._tmp = seed, tmp
        self._logs: dict[str, Path] = {}
        self._folder: Path | None = None

    def add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Keep what the report of a failure says."""
        path = self._logs.get(report.nodeid)
        if path is None:
            path = self._log_folder() / f"{len(self._logs) + 1:03}-{_slug(report.nodeid)}.log"
            self._logs[report.nodeid] = path
        with path.open("a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"{report.nodeid} failed in {report.when if hasattr(report, 'when') else 'collection'}\n")
            log.write(f"{report.longreprtext}\n")
            for title, text in report.sections:
                log.write(f"\n---- {title}\n{text}\n")

    def _log_folder(self) -> Path:
        if self._folder is None:
            self._folder = LOGS / time.strftime("%Y-%m-%dT%H-%M-%S")
            self._folder.mkdir(parents=True, exist_ok=True)
            for old in sorted(path for path in LOGS.iterdir() if path.is_dir())[:-_RUNS_KEPT]:
                shutil.rmtree(old, ignore_errors=True)
        return self._folder

    def last_lines(self) -> Iterable[str]:
        """Each failed test with its log, and the command that repeats one. Nothing where none failed."""
        if not self._logs:
            return
        yield ""
        yield f"{len(self._logs)} failed, logs in {self._folder}, folders of tests in {self._tmp}:"
        for nodeid, path in list(self._logs.items())[:_NAMED_MAX]:
            yield f"  {nodeid}"
            yield f"      log: {path}"
        if (more := len(self._logs) - _NAMED_MAX) > 0:
            yield f"  … and {more} more"
        yield "repeat one of them alone:"
        yield f"  {repeat_command(next(iter(self._logs)), self._seed)}"


def repeat_command(nodeid: str, seed: int) -> str:
    """The shell command that runs one test as this run did."""
    return f".venv/bin/python -m pytest -n 0 --hypothesis-seed={seed} {shlex.quote(nodeid)}"


def _slug(nodeid: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", nodeid.removeprefix("tests/"))[:80].strip("-")
