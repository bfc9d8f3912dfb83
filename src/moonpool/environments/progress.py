"""Progress of a build, shown on stderr: a bar on a terminal, one line per step elsewhere.

stdout is reserved for the result line of `moonpool run`; nothing here writes to it.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

    from rich.progress import Progress, TaskID

    from moonpool.environments.base import BuildProgress, ProgressSink


@contextmanager
def stderr_progress() -> Generator[ProgressSink]:
    """Yield a sink to give to `resolve_environment`. Nothing is shown unless something is built."""
    if sys.stderr.isatty():
        with _bar() as sink:
            yield sink
    else:
        yield _plain_lines()


def _plain_lines() -> ProgressSink:
    shown: set[int] = set()

    def show(progress: BuildProgress) -> None:
        if progress.done not in shown:
            shown.add(progress.done)
            sys.stderr.write(f"environment {progress.environment}: {progress.note}\n")

    return show


@contextmanager
def _bar() -> Generator[ProgressSink]:
    """A bar that is shown from the first step to the last and uses the whole terminal meanwhile."""
    bar: Progress | None = None
    task: TaskID | None = None

    def show(progress: BuildProgress) -> None:
        nonlocal bar, task
        if bar is None or task is None:
            bar = _new_bar()
            task = bar.add_task(progress.environment, total=progress.total, note="")
            bar.start()
        bar.update(task, completed=progress.done, note=progress.note)
        if progress.done >= progress.total:
            bar.stop()

    try:
        yield show
    finally:
        if bar is not None:
            bar.stop()


def _new_bar() -> Progress:
    from rich.console import Console  # noqa: PLC0415 - rich is slow to import and rarely needed
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        TextColumn("environment {task.description}"),
        BarColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
