"""Executors in tests run in the environment base, which starts at once, but for those that need IPython."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apps import DATA
from moonpool.ipybox.options import ExecutorOptions
from moonpool.sync import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def _engine() -> Iterator[None]:
    """Keep the engine open that executors share: opening one takes half a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOONPOOL_DATA_DIR", str(DATA))
        patch.setenv("MOONPOOL_ENVIRONMENT", "base")
        with Session(ExecutorOptions(environment="base")):
            yield


@pytest.fixture(autouse=True)
def project(_engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The current directory, empty."""
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(DATA))
    monkeypatch.setenv("MOONPOOL_ENVIRONMENT", "base")
    monkeypatch.chdir(tmp_path)
    return tmp_path
