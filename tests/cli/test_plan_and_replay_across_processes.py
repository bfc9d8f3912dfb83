"""Plans answered by another process, and the record of executions whose host or client was lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server, fresh_data
from cli.console import moonpool, raw_server, write_config
from cli.test_approvals import Running, approvals, listed
from moonpool.bootstrap import open_recordings
from moonpool.settings import Settings
from process_tree import children_of
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE = "import servers.hub as hub\nresult = [(await hub.keep(title=one)).ok for one in ('a', 'b')]"


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder with a queue of its own, where sandbox uids can pass through it."""
    folder = Path(f"/var/tmp/moonpool-plans-{uuid.uuid4().hex[:8]}")
    yield fresh_data(folder)
    shutil.rmtree(folder, ignore_errors=True)


def hub(folder: Path, more: dict[str, Any] | None = None, **block: Any) -> Path:
    (folder / "tools.json").write_text(
        json.dumps({"tools": [{"name": "keep", "inputSchema": {"type": "object"}}]}), encoding="utf-8"
    )
    server = fixture_server("recorder.py", str(folder / "tools.json"), str(folder / "record.jsonl"), **block)
    return write_config(folder, {"hub": server, **(more or {})})


def arrived(folder: Path) -> list[str]:
    record = folder / "record.jsonl"
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    return [json.loads(line)["arguments"]["title"] for line in lines]


@pytest.mark.parametrize(("answer", "came"), [("approve", ["a", "b"]), ("deny", [])])
def test_plan_first_asks_the_queue_once_and_goes_on_when_somebody_answers(
    tmp_path: Path, data: Path, answer: str, came: list[str]
) -> None:
    with Running(tmp_path, data, hub(tmp_path, ask=["*"]), command=("run", "-c", CODE, "--plan-first")) as running:
        request = running.request()
        before = arrived(tmp_path)
        answered = approvals(tmp_path, data, answer, request["id"])
        ended = running.ended()
    assert (request["server"], request["tool"]) == ("moonpool", "plan")
    assert [f'hub.keep {{"title":"{one}"}}' in request["arguments"] for one in ("a", "b")] == [True, True]
    assert (answered.exit_code, before, arrived(tmp_path)) == (0, [], came)
    if came:
        assert (ended.result["data"], ended.envelope["approval_state"]) == ([True, True], "APPROVED")
    else:
        assert (ended.exit_code, "plan_unusable" in ended.stderr) == (2, True)
    assert listed(tmp_path, data) == []


@pytest.mark.req("H-065")
def test_an_execution_whose_host_was_killed_is_replayed_as_far_as_its_record(tmp_path: Path, data: Path) -> None:
    code = "from servers import deaf, hub\nawait hub.keep(title='a')\nprint('here')\nawait deaf.echo(a=1)"
    config = hub(tmp_path, {"deaf": raw_server("hangs-on-call")}, allow=["*"])
    with Running(tmp_path, data, config, command=("run", "-c", code)) as running:
        wait_until(lambda: _recorded_replies(tmp_path, data) == 1, within_s=40)
        servers = {pid for pid in children_of(running.process.pid) if b"hangs-on-call" in _command_line(pid)}
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
    for pid in servers:  # it reads nothing while it hangs, so it never hears that its host is gone
        os.kill(pid, signal.SIGKILL)
    assert len(servers) == 1
    (recorded,) = _recordings(tmp_path, data)
    replayed = moonpool(tmp_path, "replay", recorded["run_id"], "--json", MOONPOOL_DATA_DIR=str(data))
    report = json.loads(replayed.stdout)
    assert (report["end"], report["calls"]["served"], report["divergence"]) == ("record_ended", 1, None)
    assert "here" in str(report["envelope"])
    assert any("the host ended before the execution did" in note for note in report["notes"])
    assert arrived(tmp_path) == ["a"]


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _recordings(home: Path, data: Path) -> list[dict[str, Any]]:
    lines = moonpool(home, "recordings", "list", "--json", MOONPOOL_DATA_DIR=str(data)).stdout.splitlines()
    return [json.loads(line) for line in lines]


def _recorded_replies(home: Path, data: Path) -> int:
    listed_now = _recordings(home, data)
    if not listed_now:
        return 0
    with open_recordings(Settings.load({}, data_dir=data), os.environ) as reader:
        return len(reader.load(listed_now[0]["run_id"]).replies)
