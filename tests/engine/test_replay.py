"""Replays in real sandboxes: what was recorded comes out again, what differs is told, and no server is reached."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sqlite3
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest

from apps import DATA, fixture_server, open_app, run
from moonpool.bootstrap import open_recordings
from moonpool.bootstrap.replays import _settings_of_then, replay_run
from moonpool.bootstrap.sandboxes import sandbox_spec
from moonpool.configuration.policy_file import load_policy_file
from moonpool.engine.code_request import CodeRequest
from moonpool.features.recordings.model import RecordedPackage, RecordingError
from moonpool.pipeline.approval import approve
from moonpool.replay.report import ReplayEnd
from moonpool.replay.service import ReplayRequest
from moonpool.replay.source import load_source
from moonpool.replay.stage import ReplayImpossibleError
from moonpool.sandboxes.host_folders import HostFolder, HostFolders
from moonpool.settings import Settings
from moonpool.store.journal_reading import FileJournalReader, read_rows
from moonpool.store.paths import journal_path, recordings_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from moonpool.core.envelope import Envelope
    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalRequest
    from moonpool.features.recordings.model import Recording, RunHeader
    from moonpool.features.recordings.table import RecordingsFile
    from moonpool.replay.report import ReplayReport

    Past = dict[str, Envelope]

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-065")]

SECRET = "canary-7d1f-of-the-configuration"
SAY_THREE = "from servers import echo\nfor n in (1, 2, 3):\n    print((await echo.echo(text=str(n))).data)"
CODES = {
    "parallel": """
import asyncio
from servers import echo
async def one(text, seconds):
    await echo.sleep(seconds=seconds)
    print("done", text)
    return (await echo.text(text=text)).data
result = await asyncio.gather(one("slow", 0.3), one("fast", 0.0), one("fast", 0.0))
""",
    "no calls": "result = 1",
    "chance": """
import os, random, time, uuid
result = [time.time(), random.random(), str(uuid.uuid4()), os.urandom(4).hex(), list({"a", "b", "c", "d"})]
""",
    "to be edited": "result = 'edit me'",
    "three": SAY_THREE,
    "two": "from servers import echo\nawait echo.text(text='a')\nawait echo.text(text='b')",
    "denied later": """
from servers import echo
from client.errors import PolicyDenied
result = []
for n in (1, 2):
    try:
        result.append((await echo.text(text=str(n))).unwrap())
    except PolicyDenied as error:
        result.append(error.type)
await echo.length(text='x')
""",
    "spends": """
from servers import echo
for n in (1, 2, 3):
    await echo.text(text=str(n))
await echo.echo(text='x')
""",
    "refused": """
from servers import closed
from client.errors import PolicyDenied
try:
    (await closed.text(text='a')).unwrap()
except PolicyDenied as error:
    result = error.type
""",
    "secret arguments": """
from servers import asked
parts = ['canary-7d1f', 'of-the-configuration']
result = (await asked.text(text='-'.join(parts))).data
print('-'.join(parts))
""",
    "secret code": f"x = {SECRET!r}",
}


class _Noting:
    """Approves, with a note."""

    together = False

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        return replace(approve(request, "me"), note="canary-note")


async def _record() -> dict[str, Envelope]:
    """Run everything in one application, which is closed before anything is replayed."""
    servers = {
        "echo": fixture_server("echo.py"),
        "closed": fixture_server("echo.py", deny=["text"]),
        "asked": {**fixture_server("echo.py", ask=["*"]), "env": {"TOKEN": "${CANARY}"}},
    }
    found: dict[str, Envelope] = {}
    async with open_app(servers, approver=_Noting()) as app:
        for name, code in CODES.items():
            found[name] = await run(app, code)
        slow = "from servers import echo\nawait echo.text(text='a')\nawait echo.sleep(seconds=30)\nprint('never')"
        found["cut off"] = await run(app, slow, timeout_s=3.0)
        found["bash"] = await run(app, 'moonpool call echo.text \'{"text": "hello"}\'', language="bash")
        session = app.runtime.session(app.caller_grant)
        await session.files.put("given.txt", _bytes(b"from outside"))
        await session.execute(CodeRequest(code=b"from servers import echo\nx = (await echo.text(text='kept')).data"))
        code = b"result = [x, open('given.txt').read()]"
        found["session"] = await session.execute(CodeRequest(code=code))
        await session.close()
        session = app.runtime.session(app.caller_grant)
        found["gone"] = await session.execute(CodeRequest(code=b"x = 1"))
        found["after a gap"] = await session.execute(CodeRequest(code=b"result = x"))
        await session.close()
        session = app.runtime.session(app.caller_grant, checkpoints=True)
        await session.execute(CodeRequest(code=b"x = 1"))
        found["before an undo"] = await session.execute(CodeRequest(code=b"x += 1; result = x"))
        await session.checkpoints.undo()
        found["after an undo"] = await session.execute(CodeRequest(code=b"result = x"))
        found["later"] = await session.execute(CodeRequest(code=b"result = x"))
        await session.close()
        with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
            folder = HostFolders((HostFolder(Path(made), writable=True),))
            session = app.runtime.session(app.caller_grant, folders=folder)
            found["with a folder"] = await session.execute(CodeRequest(code=b"result = 1"))
            await session.close()
    async with open_app(record="off") as app:
        found["not recorded"] = await run(app, "result = 1")
    return found


@pytest.fixture(scope="module")
def past(request: pytest.FixtureRequest) -> dict[str, Envelope]:
    """What was run, by name."""
    del request
    os.environ["CANARY"] = SECRET
    try:
        return asyncio.run(_record())
    finally:
        del os.environ["CANARY"]


async def replay(run: Envelope | str, **request: Any) -> ReplayReport:
    settings = Settings.load({}, data_dir=DATA)
    run_id = run if isinstance(run, str) else run.run_id
    return await replay_run(settings, ReplayRequest(run_id=run_id, **request), environ=os.environ)


async def policy_file(folder: Path, text: str) -> Any:
    def load() -> Any:
        path = folder / "policy.toml"
        path.write_text("version = 1\n" + text, encoding="utf-8")
        return load_policy_file(path).layer

    return await anyio.to_thread.run_sync(load)


@pytest.mark.parametrize("backend", ["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def test_parallel_calls_come_out_the_same_without_a_server(backend: str, tmp_path: Path) -> None:
    listing, calls = tmp_path / "tools.json", tmp_path / "calls.jsonl"
    tools = [{"name": "put", "inputSchema": {"type": "object"}}]
    listing.write_text(json.dumps(tools), encoding="utf-8")
    code = (
        "import asyncio\nfrom servers import box\n"
        "answers = await asyncio.gather(*(box.put(number=n % 3) for n in range(6)))\n"
        "print(*(one.data['arguments']['number'] for one in answers)); result = len(answers)"
    )
    async with open_app({"box": fixture_server("recorder.py", str(listing), str(calls))}, backend=backend) as app:
        envelope = await run(app, code)
    calls.unlink()
    listing.unlink()  # the server could not even start
    report = await replay(envelope)
    assert envelope.data == 6
    assert report.same, report.to_json()
    assert (report.end, report.calls_served) == (ReplayEnd.COMPLETE, 6)
    assert not calls.exists()


async def test_replies_come_in_the_order_of_then(past: Past) -> None:
    report = await replay(past["parallel"])
    assert past["parallel"].extras["stdout"] == "done fast\ndone fast\ndone slow\n"
    assert report.same, report.to_json()


@pytest.mark.parametrize("name", ["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def test_clock_randomness_and_the_order_of_sets_are_those_of_then(name: str, past: Past) -> None:
    envelope = past["chance"]
    if name == "bubblewrap":
        async with open_app(backend=name) as app:
            envelope = await run(app, CODES["chance"])
    report = await replay(envelope)
    assert report.same, report.to_json()
    assert report.notes == ()


async def test_code_that_reads_the_clock_elsewhere_is_told_of(past: Past) -> None:
    report = await replay(past["chance"], code=b"import random\nresult = random.random()")
    assert report.nondeterminism_divergence
    assert not report.same


async def test_a_replay_is_on_record_as_one_and_is_not_recorded_itself(past: Past) -> None:
    report = await replay(past["no calls"])
    rows = await anyio.to_thread.run_sync(lambda: list(read_rows(journal_path(DATA), run_id=report.replay_run_id)))
    assert rows[0].to_json()["replay_of"] == past["no calls"].run_id
    with pytest.raises(RecordingError, match=f"is a replay itself; replay {past['no calls'].run_id}"):
        await replay(report.replay_run_id)


async def test_edited_code_that_makes_the_same_calls_runs_on_the_record(past: Past) -> None:
    report = await replay(past["three"], code=(SAY_THREE + "\nprint('more')").encode())
    assert (report.end, report.edited, report.calls_served) == (ReplayEnd.COMPLETE, True, 3)
    assert [(one.what, one.line) for one in report.compared if not one.same] == [("stdout", 4)]


async def test_edited_code_diverges_at_the_first_other_call(past: Past) -> None:
    report = await replay(past["three"], code=SAY_THREE.replace("str(n)", "str(n) if n < 3 else 'x'").encode())
    found = report.divergence
    assert report.end is ReplayEnd.DIVERGED
    assert found is not None
    assert (found.asked.number, found.recorded.number if found.recorded else 0) == (3, 3)
    assert [one.to_json() for one in found.differences] == [{"pointer": "/text", "recorded": '"3"', "asked": '"x"'}]
    assert "has no such call" in json.dumps(report.envelope)


async def test_calls_that_are_not_made_any_more_are_named(past: Past) -> None:
    report = await replay(past["two"], code=b"from servers import echo\nawait echo.text(text='b')")
    assert [one.arguments for one in report.not_made] == [{"text": "a"}]
    assert not report.same


async def test_an_execution_of_a_session_is_replayed_after_those_before_it(past: Past) -> None:
    report = await replay(past["session"])
    assert past["session"].data == ["kept", "from outside"]
    assert report.same, report.to_json()


async def test_a_gap_in_a_session_is_an_error_with_a_remedy(past: Past) -> None:
    await anyio.to_thread.run_sync(_remove, past["gone"].run_id)
    with pytest.raises(RecordingError, match=r"builds on execution 1 of its session.*as one piece of code"):
        await replay(past["after a gap"])


async def test_what_follows_an_undo_says_that_it_cannot_be_replayed(past: Past) -> None:
    assert (await replay(past["before an undo"])).same
    assert past["after an undo"].data == past["later"].data == 1
    for name in ("after an undo", "later"):
        with pytest.raises(RecordingError, match="its session was put back to an earlier checkpoint"):
            await replay(past[name])


async def test_what_ran_with_a_folder_of_the_host_says_that_it_cannot_be_replayed(past: Past) -> None:
    assert past["with a folder"].data == 1
    with pytest.raises(RecordingError, match="its session had a folder of this machine"):
        await replay(past["with a folder"])


async def test_an_execution_that_was_cut_off_is_replayed_as_far_as_the_record(past: Past) -> None:
    report = await replay(past["cut off"])
    assert past["cut off"].error is not None
    assert past["cut off"].error.type == "Timeout"
    assert (report.calls_served, report.divergence) == (1, None)
    assert any("ended early (timeout)" in note for note in report.notes)
    assert '"stdout": ""' in json.dumps(report.envelope)


async def test_what_if_another_policy_had_been_in_force(past: Past, tmp_path: Path) -> None:
    layer = await policy_file(
        tmp_path,
        '[[rule]]\nid = "no-two"\nserver = "echo"\ntool = "text"\nverdict = "deny"\n'
        'when = [{ at = "/text", equals = "2" }]\n',
    )
    report = await replay(past["denied later"], policy=layer)
    assert past["denied later"].data == ["1", "2"]
    assert [(one.number, one.before, one.after, one.after_rule) for one in report.decisions or () if one.changed] == [
        (2, "allow", "deny", "no-two")
    ]
    assert '"data": ["1", "PolicyDenied"]' in json.dumps(report.envelope)
    assert (report.calls_recorded, report.calls_served, report.calls_denied) == (3, 2, 1)


async def test_what_if_spends_budgets_anew(past: Past, tmp_path: Path) -> None:
    report = await replay(past["spends"], policy=await policy_file(tmp_path, "[budget.session]\ncalls = 2\n"))
    assert [one.after for one in report.decisions or ()] == ["allow", "allow", "deny", "deny"]


async def test_what_if_follows_labels_of_the_other_policy(past: Past, tmp_path: Path) -> None:
    layer = await policy_file(
        tmp_path,
        '[[label]]\nserver = "echo"\ntool = "text"\nreturns = ["private"]\n'
        '[[rule]]\nid = "no-leak"\nserver = "echo"\ntool = "echo"\nafter = ["private"]\nverdict = "deny"\n',
    )
    report = await replay(past["spends"], policy=layer)
    assert [one.after_rule for one in report.decisions or () if one.changed] == ["no-leak"]


async def test_refused_calls_are_decided_again_under_the_rules_of_the_configuration(past: Past, tmp_path: Path) -> None:
    report = await replay(past["refused"], policy=await policy_file(tmp_path, ""))
    assert report.same, report.to_json()
    assert [(one.before, one.after) for one in report.decisions or ()] == [("deny", "deny")]
    for played in (report, await replay(past["refused"])):
        then, now = past["refused"].result["failed_calls"], played.envelope["result"]
        assert isinstance(now, dict)
        assert then == now["failed_calls"]
        assert played.same, played.to_json()


async def test_no_secret_and_no_note_of_an_approval_is_in_a_recording(past: Past) -> None:
    kept = await anyio.to_thread.run_sync(_kept, DATA / "private")
    assert past["secret arguments"].data == "[REDACTED:SECRET_1]"
    assert b"canary-7d1f'" in kept  # what the code itself is made of
    assert SECRET.encode() not in kept
    assert b"canary-note" not in kept
    with pytest.raises(RecordingError, match="its code holds what is redacted"):
        await replay(past["secret code"])


async def test_a_recording_that_is_not_what_the_journal_says_is_refused(past: Past) -> None:
    await anyio.to_thread.run_sync(_edit_code, past["to be edited"].run_id)
    with pytest.raises(RecordingError, match="its code is not what the audit journal says"):
        await replay(past["to be edited"])


async def test_without_recordings_there_is_nothing_to_replay(past: Past) -> None:
    with pytest.raises(RecordingError, match="is not recorded"):
        await replay(past["not recorded"])
    with pytest.raises(RecordingError, match="there is no execution"):
        await replay(f"run_{'0' * 32}")
    with pytest.raises(RecordingError, match="is no execution"):
        await replay("../run")


async def test_another_environment_than_then_is_refused(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moonpool.bootstrap.replays.sandbox_spec", _other_image)
    with pytest.raises(ReplayImpossibleError, match="by now; replay it with Moonpool"):
        await replay(past["no calls"])


async def test_bash_is_replayed_with_its_calls_and_says_what_is_not_played(past: Past) -> None:
    report = await replay(past["bash"])
    assert report.same, report.to_json()
    assert (report.calls_served, "in bash clock and randomness are not recorded" in report.notes[0]) == (1, True)


def _kept(private: Path) -> bytes:
    """Read by another process: closing a descriptor of an SQLite file drops this process's locks on it."""
    return subprocess.run(["cat", *private.glob("recordings*")], capture_output=True, check=True).stdout


async def _bytes(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _remove(run_id: str) -> None:
    with open_recordings(Settings.load({}, data_dir=DATA), os.environ) as reader:
        assert reader.remove([run_id]) == 1


def _edit_code(run_id: str) -> None:
    with sqlite3.connect(recordings_path(DATA)) as connection:
        (body,) = connection.execute("SELECT body FROM part WHERE run_id = ? AND number = 0", (run_id,)).fetchone()
        changed = body.replace(b"edit me", b"edit us")
        connection.execute("UPDATE part SET body = ? WHERE run_id = ? AND number = 0", (changed, run_id))
    connection.close()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("language", "bash", "its language"),
        ("backend", "other", "its backend"),
        ("environment_id", "base@other", "its environment"),
        ("session_id", "0" * 32, "its session"),
        ("timeout_s", math.nan, "its limits"),
        ("position", -1, "its limits"),
        ("hash_seed", 2**32, "its limits"),
        ("packages", (RecordedPackage(name="x", version="1", sha256="../../recordings"),), "its packages"),
    ],
)
async def test_a_header_that_is_not_what_the_journal_says_is_not_replayed(
    past: Past, name: str, value: object, told: str
) -> None:
    def load() -> None:
        with open_recordings(Settings.load({}, data_dir=DATA), os.environ) as reader:
            changed: dict[str, Any] = {name: value}
            tampering = _Tampering(reader, lambda found: replace(found, header=replace(found.header, **changed)))
            load_source(tampering, FileJournalReader(journal_path(DATA)), past["no calls"].run_id)

    with pytest.raises(RecordingError, match=f"was changed: {told} is not"):
        await anyio.to_thread.run_sync(load)


async def test_settings_of_then_that_cannot_be_are_a_damage_of_the_recording(past: Past) -> None:
    settings = Settings.load({}, data_dir=DATA)

    def header() -> RunHeader:
        with open_recordings(settings, os.environ) as reader:
            return reader.load(past["no calls"].run_id).header

    found = await anyio.to_thread.run_sync(header)
    for given in ({"packages": "x;y"}, {"redact_personal": "shoe sizes"}):
        with pytest.raises(RecordingError, match=r"is damaged: its settings .*: (packages|redact_personal)"):
            _settings_of_then(settings, replace(found, settings={**found.settings, **given}))


def _with_reply(found: Recording, reply: bytes) -> Recording:
    return replace(found, replies=(replace(found.replies[0], reply=reply), *found.replies[1:]))


def _with_envelope(found: Recording, **result: Any) -> Recording:
    assert found.end is not None
    envelope = json.loads(found.end.envelope)
    envelope["result"] |= result
    return replace(found, end=msgspec.structs.replace(found.end, envelope=json.dumps(envelope).encode()))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda found: replace(found, calls=(replace(found.calls[0], tool_name="sleep"), *found.calls[1:])),
            "the tool",
        ),
        (lambda found: replace(found, calls=(replace(found.calls[0], call_id=999), *found.calls[1:])), "the result"),
        (lambda found: _with_reply(found, b'{"raw": 1e999}'), "a part"),
        (lambda found: _with_reply(found, b'{"ok": false, "error": {"type": ""}}'), "the result"),
        (lambda found: _with_reply(found, b'{"ok": true}'), "the result"),
        (lambda found: _with_envelope(found, data="\ud800"), "a part"),
        (lambda found: _with_envelope(found, data=math.inf), "a part"),
        (lambda found: _with_envelope(found, ok=False, error=None), "its result"),
    ],
    ids=[
        "tool",
        "call of no record",
        "number of a result",
        "no error",
        "no result",
        "half a pair",
        "number",
        "how it ended",
    ],
)
async def test_what_came_of_an_execution_is_what_the_journal_says(
    past: Past, change: Callable[[Recording], Recording], told: str
) -> None:
    def load() -> None:
        with open_recordings(Settings.load({}, data_dir=DATA), os.environ) as reader:
            load_source(_Tampering(reader, change), FileJournalReader(journal_path(DATA)), past["two"].run_id)

    with pytest.raises(RecordingError, match=f"was changed: {told}.* is not"):
        await anyio.to_thread.run_sync(load)


class _Tampering:
    """A reader of recordings that were changed."""

    def __init__(self, reader: RecordingsFile, change: Callable[[Recording], Recording]) -> None:
        self._reader, self._change = reader, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def load(self, run_id: str) -> Recording:
        return self._change(self._reader.load(run_id))


def _other_image(*arguments: Any) -> Any:
    spec = sandbox_spec(*arguments)
    return replace(spec, image=replace(spec.image, digest="another"))
