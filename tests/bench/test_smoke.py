"""The harness works: every group runs with next to no samples, and its work was checked. Nothing here judges time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.rows import ROWS
from bench.sizes import TINY

from run_folder import made_once

ROOT = Path(__file__).parents[2]
COUNTS = {"rate": TINY.concurrency, "answer": TINY.concurrency, "live": TINY.live, "tools": TINY.tools}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(800)]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """One run of everything that does not need the data environment, which takes minutes to build."""
    with made_once("bench-document.json") as path:
        if not path.exists():
            _measure_everything(path)
        return json.loads(path.read_text(encoding="utf-8"))


def _measure_everything(path: Path) -> None:
    command = [sys.executable, "-m", "bench", "--tiny", "--env", "base", "--no-peers", "--json", str(path)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=700, check=False, env=_env()
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert "first execution of a new tenant, base" in ended.stdout
    assert "Exception" not in ended.stderr, ended.stderr[-4000:]


def _env() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k == "MOONPOOL_DATA_DIR" or not k.startswith("MOONPOOL_")}


def test_every_row_without_the_data_environment_is_measured(document: dict[str, Any]) -> None:
    expected = {name for name in ROWS if ".data" not in name and not name.endswith(".imports")}
    wanted = {name for name in expected if is_counted_here(name)}

    rows = {row["name"]: row for row in document["rows"]}
    assert wanted <= rows.keys()
    assert all(rows[name]["n"] or rows[name]["note"] for name in wanted)


def is_counted_here(name: str) -> bool:
    """Rows that come once per count are there for the counts of this size only, others where the machine has them."""
    if name == "node.plain":
        return shutil.which("node") is not None
    if name.startswith("kill.groups."):  # only root may make any; CI says whether it may
        return os.environ.get("MOONPOOL_REQUIRE_LIMITS") == "cgroup"
    counts = COUNTS.get(name.partition(".")[0])
    return counts is None or int(name.rpartition(".")[2]) in counts


def test_peers_that_were_left_out_are_rows_that_say_so(document: dict[str, Any]) -> None:
    left_out = [row for row in document["rows"] if row["note"] and row["note"].startswith("peer not available")]

    assert {"ipybox.execute", "jupyter.execute", "codemode.execute"} <= {row["name"] for row in left_out}


def test_rows_hold_figures_and_their_samples(document: dict[str, Any]) -> None:
    measured = [row for row in document["rows"] if row["name"] in document["samples"]]
    for row in measured:
        samples = [sample for one in document["samples"][row["name"]] for sample in one]
        assert row["n"] == len(samples) > 0
        value = row["value_ms" if row["unit"] == "ms" else "value"]
        assert min(samples) - 1e-4 <= value <= max(samples) + 1e-4


def test_the_document_says_where_and_how_it_was_measured(document: dict[str, Any]) -> None:
    assert document["schema"] == 2
    assert document["command"].startswith("python -m bench --tiny --env base")
    assert {"cores", "cpu", "linux", "python", "uid", "date"} <= document["machine"].keys()
    assert document["commit"]
    assert {"moonpool", "mcp", "ipybox", "fastmcp", "pydantic-monty", "bubblewrap"} <= document["versions"].keys()
    assert all({"name", "load_before", "load_after", "seconds"} == group.keys() for group in document["groups"])


def test_the_wrappers_benchmark_runs_alone_on_any_folder_of_lists(tmp_path: Path) -> None:
    tool = {"name": "go", "inputSchema": {"type": "object", "properties": {"where": {"type": "string"}}}}
    (tmp_path / "array.json").write_text(json.dumps([tool]), encoding="utf-8")
    recorded = {"result": {"tools": [tool, {**tool, "name": "stop"}]}}
    (tmp_path / "recorded.json").write_text(json.dumps(recorded), encoding="utf-8")
    command = [sys.executable, "-m", "bench.wrappers", "--toollists", str(tmp_path), "--rounds", "1", "--json"]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60, check=True)

    found = json.loads(ended.stdout)
    assert (found["tools"], found["servers"]) == (3, 2)
    assert found["ms_min"] <= found["ms_p50"] <= found["ms_p95"]
    assert 0 < found["stub_tokens"] < found["json_tokens"]


def test_the_cost_of_an_execution_is_counted_where_groups_can_be_made() -> None:
    command = [sys.executable, "-m", "bench.cost", "--tiny", "--no-peers", "--json"]

    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300, check=False, env=_env()
    )

    if os.environ.get("MOONPOOL_REQUIRE_LIMITS") != "cgroup" and "only root can count" in ended.stderr:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout)
    fresh = found["fresh"]
    assert 0 < fresh["host_cpu_ms"] < fresh["cpu_ms"]
    assert fresh["bwrap_cpu_ms"] > 0
    assert set(fresh["rate_vs_bwrap"]) == set(map(str, TINY.concurrency))
    assert all(found[kind]["cpu_ms"] > 0 for kind in ("session", "tool_call", "execute_code"))


def test_promises_beside_ipybox_are_measured() -> None:
    """Those that take least; memory and figures are measured in the same way."""
    expected = {"cold", "execute", "tool", "checkpoint", "undo", "reset"}
    command = [sys.executable, "-m", "bench.sdk", "--rounds", "1", "--quick", "--no-peers", "--json"]
    command += ["--only", *sorted(expected)]

    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300, check=False, env=_env()
    )

    assert ended.returncode == 0, ended.stderr[-4000:]
    samples = json.loads(ended.stdout)["samples"]["moonpool"]
    assert samples.keys() == expected
    assert all(min(taken) > 0 for taken in samples.values())


@pytest.mark.usefixtures("postgres")  # which skips where there is no PostgreSQL
def test_each_row_of_the_journals_is_measured_in_both_stores() -> None:
    command = [sys.executable, "-m", "bench.journals", "--rounds", "1", "--json"]

    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300, check=False, env=_env()
    )

    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout)
    kinds = {"record", "durable", "writing_call", "at_once", "bare", "bare_durable"}
    assert found["rows"].keys() == {f"{store}.{kind}" for store in ("sqlite", "postgres") for kind in kinds}
    assert found["postgres_vs_sqlite"].keys() == kinds


@pytest.mark.usefixtures("postgres")
def test_the_service_is_measured_alone_and_with_many_clients() -> None:
    command = [sys.executable, "-m", "bench.service", "--no-peers", "--rounds", "1", "--seconds", "1.2"]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300, check=False, env=_env()
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout)
    assert {"execute_code", "bare Starlette", "first output"} <= found["one at a time, ms"].keys()
    assert found["a writing tool call adds, ms"].keys() == {"SQLite", "PostgreSQL"}
    (many,) = (part for name, part in found.items() if name.startswith("64 clients"))
    assert set(many["statuses"]) <= {"200", "429", "503"}
    assert many["statuses"]["200"] > 0


def test_one_call_is_measured_without_a_thread_with_threads_and_with_a_large_file() -> None:
    command = [sys.executable, "-m", "bench.one_call", "--rounds", "1", "--quick"]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300, check=False, env=_env()
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout)
    rows = found["one at a time, ms"].keys()
    assert {"sandbox_execute", "/v1/sandbox/execute", "bare Starlette", "thread of 10 MiB, one file changed"} <= rows
    before, up, down = found["a large file"]["resident MB before, most while up, most while down"]
    assert max(up, down) < before + 48  # of a file of 64 MiB; no piece of it is larger than 8 MiB
