"""A machine with real routes, real names and a real resolver, beside an internet that the test makes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apps import fresh_data
from moonpool.network.connections import Outcome
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from run_folder import run_folder

PROGRAM = Path(__file__).with_name("fake_internet.py")


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip"), reason="namespaces and addresses need root and iproute2"
)
def test_code_reaches_the_internet_that_is_allowed_and_nothing_inside(tmp_path: Path) -> None:
    data = fresh_data(run_folder() / tmp_path.name)
    command = ["unshare", "--net", "--mount", "--", sys.executable, str(PROGRAM), str(tmp_path)]
    variables = {**os.environ, "MOONPOOL_DATA_DIR": str(data), "PYTHONPATH": str(PROGRAM.parents[1])}
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["error"] == ""
    found = {url.removeprefix("http://"): text for url, text in answer["data"].items()}
    assert found.pop("www.example.com/hello") == "hello"
    inside = [found.pop(f"{name}.example.com/") for name in ("private", "loopback", "metadata", "own", "nat")]
    assert [text for text in inside if "not on the public internet" not in text] == []
    assert [text for text in found.values() if "not among the domains" not in text] == []
    rows = [row.to_json() for row in read_rows(journal_path(data), tail=100) if row.kind == "connection"]
    addresses = {row["host"]: row["address"] for row in rows if row["outcome"] == Outcome.ADDRESS_REFUSED}
    assert addresses == {
        "private.example.com": "10.9.9.9",
        "loopback.example.com": "127.0.0.1",
        "metadata.example.com": "169.254.169.254",
        "own.example.com": "93.184.215.1",
        "nat.example.com": "64:ff9b::a09:909",
    }
    assert sorted(row["address"] for row in rows if row["outcome"] == Outcome.DONE) == ["93.184.215.14"] * 3
