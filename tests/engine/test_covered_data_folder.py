"""A data folder at a place that sandboxes cover with one of their own, such as /tmp."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apps import fresh_data, open_app, run
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator

pytestmark = pytest.mark.anyio
LOOK = """
import json, os, sys
from pathlib import Path
result = [sys.executable, os.listdir("/tmp"), json.loads("1"), Path("/tmp/own").write_text("x")]
"""


@pytest.fixture
def data() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="moonpool-test-"))
    folder.chmod(0o755)
    yield fresh_data(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("backend", ["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def test_code_runs_with_a_data_folder_below_tmp_and_does_not_see_it(backend: str, data: Path) -> None:
    async with open_app(data_dir=data, backend=backend) as app:
        there = app.runtime.sandbox_spec.image.python
        envelope = await run(app, LOOK)
    assert envelope.error is None, envelope.error
    python, in_tmp, loaded, written = envelope.data
    assert (in_tmp, loaded, written) == ([], 1, 1)
    assert python == str(there).replace(f"{data}/environments", "/environments")


def test_a_relative_data_folder_counts_from_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.load({"MOONPOOL_DATA_DIR": "here/x"}).data_dir == tmp_path / "here/x"
    assert Settings.load({"MOONPOOL_DATA_DIR": "/there"}).data_dir == Path("/there")
