"""Makes the git repository that the demo looks into: small, and the same on every machine.

One `git fast-import` builds all of it, so ids, dates and sizes never change. `EXPECTED` is what a correct program must
find out about it.
"""

from __future__ import annotations

import datetime as dt
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_START: Final = dt.datetime(2026, 9, 1, 9, 0, tzinfo=dt.UTC)
_AUTHORS: Final = ("Ada", "Ada", "Grace", "Ada", "Grace", "Katherine")
_COMMIT_COUNT: Final = 48
_LARGEST: Final = 30  # this commit brings in a table of 2,000 lines


def _author(index: int) -> str:
    return _AUTHORS[index % len(_AUTHORS)]


def _date(index: int) -> dt.datetime:
    return _START + dt.timedelta(days=index, hours=int(index % 4 > 0))


def _message(index: int) -> str:
    return "Add the station table" if index == _LARGEST else f"Improve part {index % 7} of the model"


def _content(index: int) -> str:
    lines = 2_000 if index == _LARGEST else 100 + index % 9
    return "".join(f"row {number} of change {index}\n" for number in range(lines))


EXPECTED: Final = {
    "commits": _COMMIT_COUNT,
    "by_author": dict(Counter(_author(index) for index in range(_COMMIT_COUNT))),
    "by_weekday": dict(Counter(f"{_date(index):%A}" for index in range(_COMMIT_COUNT))),
    "largest": {"author": _author(_LARGEST), "message": _message(_LARGEST), "lines_added": 2_000},
    "busiest_hour": {"UTC": "10:00", "Asia/Tokyo": "19:00"},
}


def make_repository(folder: Path) -> None:
    """Create the repository at `folder`."""
    _git(folder.parent, "init", "--quiet", str(folder))
    _git(folder, "fast-import", "--quiet", stdin="".join(_commit(index) for index in range(_COMMIT_COUNT)))
    _git(folder, "checkout", "--quiet", "main")


def _commit(index: int) -> str:
    """One commit in git's import format: each adds a file of its own."""
    who = f"{_author(index)} <{_author(index).lower()}@example.org> {int(_date(index).timestamp())} +0000"
    message, content = _message(index), _content(index)
    return (
        f"commit refs/heads/main\nauthor {who}\ncommitter {who}\n"
        f"data {len(message)}\n{message}\n"
        f"M 100644 inline part-{index:02}.txt\ndata {len(content)}\n{content}\n"
    )


def _git(folder: Path, *arguments: str, stdin: str = "") -> None:
    subprocess.run(["git", *arguments], cwd=folder, input=stdin, text=True, encoding="utf-8", check=True)  # noqa: S607
