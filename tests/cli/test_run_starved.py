"""A machine that lets us start only so many processes: a sentence, or one envelope with its end on record."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apps import fresh_data
from cli.console import Ended, environment
from commands.process import SCRIPT
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARENTS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group that counts processes, where this process may make one."""
    for parent in _PARENTS:
        made = parent / f"moonpool-test-starved-{os.getpid()}"
        try:
            made.mkdir()
        except OSError:
            continue
        try:
            if (made / "pids.max").exists() and os.access(made / "cgroup.procs", os.W_OK):
                yield made
                return
        finally:
            made.rmdir()
    pytest.skip("no control group for processes can be made here")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["zygote", "bubblewrap"])
def test_with_too_few_processes_there_is_one_envelope_or_a_sentence(tmp_path: Path, group: Path, backend: str) -> None:
    into = f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"'
    for limit in (4, 6, 11, 12):
        (group / "pids.max").write_text(str(limit), encoding="utf-8")
        data = fresh_data(tmp_path / f"data-{limit}")
        done = subprocess.run(
            ["sh", "-c", into, SCRIPT, "run", "-c", "print(1); result = 2", "--backend", backend],
            capture_output=True,
            check=False,
            timeout=60,
            cwd=tmp_path,
            env=environment(tmp_path, MOONPOOL_DATA_DIR=str(data)),
        )
        ended = Ended(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
        journal = journal_path(data)
        kinds = [row.kind for row in read_rows(journal)] if journal.exists() else []
        assert "bug in Moonpool" not in ended.stderr, limit
        if ended.exit_code == 2:
            assert "start no more processes or threads" in ended.sentence, limit
            assert kinds == [], limit
        else:
            assert ended.envelope["run_id"], limit
            assert kinds == ["execution_start", "execution_end"], limit
