"""Saved actions in real sandboxes: imported, composed, changed under a live session, and never written by code."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import threading
import uuid
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from apps import fixture_server, fresh_data, open_app, run
from moonpool.bootstrap import open_recordings
from moonpool.bootstrap.replays import replay_run
from moonpool.core.audit import JournalError
from moonpool.core.calls import ApprovalState
from moonpool.core.errors import InputError
from moonpool.engine.code_request import CodeRequest
from moonpool.features.library.model.actions import read_action
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import LibrarySource
from moonpool.features.library.service import LibraryChanges, LibraryView
from moonpool.features.library.table import LibraryStore
from moonpool.features.recordings.model import RecordingError
from moonpool.pipeline.approval import ScriptedApprover
from moonpool.replay.report import ReplayEnd
from moonpool.replay.service import ReplayRequest
from moonpool.replay.source import code_that_worked, load_source
from moonpool.settings import Settings
from moonpool.store.fake import MemoryJournal
from moonpool.store.journal_reading import FileJournalReader
from moonpool.store.paths import journal_path, library_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from moonpool.bootstrap import Tenant
    from moonpool.features.library.model.entries import LibraryEntry
    from moonpool.features.recordings.model import Recording

pytestmark = pytest.mark.anyio

SHOUT = '''
"""Texts."""
from servers import echo

async def run(text: str, times: int = 2) -> str:
    """Shout a text."""
    return "!".join([(await echo.text(text=text)).data] * times)
'''


def action(name: str, code: str) -> LibrarySource:
    return LibrarySource(kind="action", name=name, files={ACTION_FILE: code.encode()})


def constant(value: object) -> str:
    return f'def run() -> object:\n    """Give a constant."""\n    return {value!r}\n'


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder with a library of its own, where sandbox uids can pass through it."""
    folder = Path(f"/var/tmp/moonpool-actions-{uuid.uuid4().hex[:8]}")
    yield fresh_data(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def store(data: Path) -> LibraryStore:
    return LibraryStore(library_dir(data))


@asynccontextmanager
async def opened(data: Path, **changes: Any) -> AsyncGenerator[Tenant]:
    async with open_app({"echo": fixture_server("echo.py")}, data_dir=data, **changes) as app:
        yield app


async def aside(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call what blocks, off the loop."""
    return await anyio.to_thread.run_sync(lambda: function(*arguments, **options))


@pytest.mark.req("I-102", "I-104")
async def test_an_action_is_imported_and_composed_of_others_and_of_tools(data: Path, store: LibraryStore) -> None:
    await aside(store.save, action("texts.shout", SHOUT))
    await aside(
        store.save,
        action(
            "louder",
            "from actions.texts.shout import run as shout\n"
            "async def run(text: str) -> str:\n    'Shout more.'\n    return (await shout(text, 3)).upper()",
        ),
    )
    code = """
import pathlib, actions
from actions.texts.shout import run
from actions.louder import run as louder
index = pathlib.Path("actions/INDEX.md").read_text()
stub = pathlib.Path("actions/texts/shout.pyi").read_text()
result = [await run("a"), await louder("b"), dir(actions), dir(actions.texts), run.__doc__, index, stub,
          await actions.louder.run("c")]
"""
    async with opened(data) as app:
        envelope = await run(app, code)
    assert envelope.ok, envelope.error
    assert isinstance(envelope.data, list)
    *values, index, stub, lazily = envelope.data
    assert values == ["a!a", "B!B!B", ["louder", "texts"], ["shout"], "Shout a text."]
    assert lazily == "C!C!C"
    assert "- `actions.texts.shout`: Shout a text." in str(index)
    assert "echo" not in str(stub)
    assert envelope.metrics["tool_calls"] == 3


async def test_a_live_session_sees_what_is_saved_changed_and_removed_meanwhile(data: Path, store: LibraryStore) -> None:
    code = b"""
try:
    from actions.one import run
    result = run()
except ImportError as error:
    result = type(error).__name__
"""
    seen: list[object] = []
    digests: list[str] = []
    changes = [
        lambda: None,
        lambda: store.save(action("one", constant(1))),
        lambda: None,
        lambda: store.save(action("one", constant(2)), replace=True),
        lambda: store.save(action("two", constant(0))),
        lambda: store.remove("action", "one"),
        lambda: store.remove("action", "two"),
    ]
    async with opened(data) as app:
        session = app.runtime.session(app.caller_grant)
        for change in changes:
            await anyio.to_thread.run_sync(change)
            envelope = await session.execute(CodeRequest(code=code))
            seen.append(envelope.data)
            assert app.tool_registry.current is not None
            digests.append(app.tool_registry.current.digest)
        listed = await session.execute(CodeRequest(code=b"import os\nresult = sorted(os.listdir())"))
    assert seen == ["ModuleNotFoundError", 1, 1, 2, 2, "ModuleNotFoundError", "ModuleNotFoundError"]
    assert len(set(digests)) == 5
    assert digests[0] == digests[-1]  # without entries all is as if there was no library
    assert listed.data == ["mcptools", "servers"]


async def test_a_folder_that_the_code_made_is_left_alone(data: Path, store: LibraryStore) -> None:
    async with opened(data) as app:
        session = app.runtime.session(app.caller_grant)
        await session.execute(CodeRequest(code=b"import os\nos.mkdir('actions')\nopen('actions/a.txt', 'w').close()"))
        await anyio.to_thread.run_sync(lambda: store.save(action("one", constant(1))))
        code = b"import os\nfrom actions.one import run\nresult = [os.listdir('actions'), run()]"
        envelope = await session.execute(CodeRequest(code=code))
    assert envelope.data == [["a.txt"], 1]


ATTACKS = """
import os, pathlib, shutil, sys
import actions.one as one
here = pathlib.Path("/wrappers/current/actions")
def attempt(what):
    try:
        what()
    except OSError:
        return "refused"
    return "done"
result = [
    attempt(lambda: (here / "one.py").write_text("def run(): return 'poisoned'")),
    attempt(lambda: (here / "two.py").write_text("x = 1")),
    attempt(lambda: (here / "one.py").unlink()),
    attempt(lambda: (here / "one.py").rename(here / "three.py")),
    attempt(lambda: os.chmod(here / "one.py", 0o666)),
    attempt(lambda: os.utime(here / "one.py")),
    attempt(lambda: os.link("/etc/hostname", here / "four.py")),
    attempt(lambda: shutil.rmtree("/wrappers/current/actions")),
]
one.run = lambda: "poisoned"
sys.modules["actions.one"].__dict__["extra"] = 1
pathlib.Path("actions").unlink()
pathlib.Path("actions").mkdir()
pathlib.Path("actions/one.py").write_text("def run(): return 'poisoned'")
"""


async def test_code_cannot_change_an_action_for_anybody_else(data: Path, store: LibraryStore) -> None:
    await aside(store.save, action("one", constant("clean")))
    kept = sorted((path.name, path.read_bytes()) for path in library_dir(data).rglob("*.json"))
    use = "from actions.one import run\nresult = run()"
    async with opened(data) as app:
        session, other = app.runtime.session(app.caller_grant), app.runtime.session(app.caller_grant)
        attacked = await session.execute(CodeRequest(code=ATTACKS.encode()))
        after = [
            await run(app, use),
            await other.execute(CodeRequest(code=use.encode())),
        ]
    assert attacked.data == ["refused"] * 8
    assert [envelope.data for envelope in after] == ["clean", "clean"]
    assert sorted((path.name, path.read_bytes()) for path in library_dir(data).rglob("*.json")) == kept


@pytest.mark.req("I-104")
@pytest.mark.parametrize("asks", [True, False], ids=["asked", "allowed"])
async def test_a_call_of_an_action_is_asked_for_like_any_other(data: Path, store: LibraryStore, asks: bool) -> None:
    await aside(store.save, action("texts.shout", SHOUT))
    code = """
from client.errors import ToolCallError
from actions.texts.shout import run
result = []
for text in ("a", "b"):
    try:
        result.append(await run(text, 1))
    except Exception as error:
        result.append(type(error).__name__)
"""
    approver = ScriptedApprover([ApprovalState.APPROVED, ApprovalState.REJECTED])
    rules = {"ask": ["*"]} if asks else {"allow": ["*"]}
    servers = {"echo": fixture_server("echo.py", **rules)}
    async with open_app(servers, data_dir=data, approver=approver) as app:
        envelope = await run(app, code)
    assert [request.tool_name for request in approver.requests] == ["text", "text"] * asks
    assert envelope.data == ["a", "ApprovalRejected" if asks else "b"]


async def test_a_damaged_entry_loses_only_itself_and_the_operator_is_told_once(
    data: Path, store: LibraryStore, caplog: pytest.LogCaptureFixture
) -> None:
    await aside(store.save, action("good", constant(1)))
    await aside(store.save, action("bad", constant(2)))
    (library_dir(data) / "actions" / "bad.json").write_bytes(b"nonsense")
    with caplog.at_level(logging.WARNING):
        async with opened(data) as app:
            envelope = await run(app, "import actions\nresult = dir(actions)")
            await run(app, "1")
            assert app.tool_registry.current is not None
            problems = app.tool_registry.current.library_problems
    assert envelope.data == ["good"]
    assert [record.message for record in caplog.records if "left out" in record.message] == list(problems)
    assert problems == ("action 'bad' is left out: its file is damaged (not JSON); save it again or remove it",)


async def test_an_entry_that_holds_a_secret_of_the_configuration_is_not_shown(data: Path, store: LibraryStore) -> None:
    await aside(store.save, action("leaky", constant("canary-of-the-configuration")))
    await aside(store.save, action("good", constant(1)))
    entry = {**fixture_server("echo.py"), "env": {"TOKEN": "canary-of-the-configuration"}}
    async with open_app({"echo": entry}, data_dir=data) as app:
        envelope = await run(app, "import actions\nresult = dir(actions)")
        assert app.tool_registry.current is not None
        [problem] = app.tool_registry.current.library_problems
    assert envelope.data == ["good"]
    assert "holds a secret" in problem


@pytest.mark.req("H-065")
async def test_a_replay_shows_the_library_of_then(data: Path, store: LibraryStore) -> None:
    await aside(store.save, action("one", constant("then")))
    async with opened(data) as app:
        envelope = await run(app, "from actions.one import run\nresult = run()")
    await aside(store.save, action("one", constant("now")), replace=True)
    settings = Settings.load({}, data_dir=data)
    with anyio.fail_after(60):
        report = await replay_run(settings, ReplayRequest(run_id=envelope.run_id), environ=os.environ)
    assert (report.end, report.notes) == (ReplayEnd.COMPLETE, ())
    assert report.envelope is not None
    assert report.envelope["result"] == {**cast("dict[str, object]", report.envelope["result"]), "data": "then"}


async def test_a_changed_library_in_a_recording_is_refused(data: Path, store: LibraryStore) -> None:
    await aside(store.save, action("one", constant("then")))
    async with opened(data) as app:
        envelope = await run(app, "from actions.one import run\nresult = run()")

    def recording() -> Recording:
        with open_recordings(Settings.load({}, data_dir=data), os.environ) as reader:
            return reader.load(envelope.run_id)

    kept = await aside(recording)
    [entry] = json.loads(kept.shared.library)
    entry["files"]["one.py"] = "AAAA"
    for library in (json.dumps([entry]).encode(), b"", b"[3]", b"nonsense"):
        changed = replace(kept, shared=replace(kept.shared, library=library))
        with pytest.raises(RecordingError, match="its tools is not what the audit journal says"):
            await aside(load_source, OneRecording(changed), FileJournalReader(journal_path(data)), envelope.run_id)
    source = await aside(load_source, OneRecording(kept), FileJournalReader(journal_path(data)), envelope.run_id)
    assert [one.path for one in source.target.manifest.library.entries] == ["actions.one"]


async def test_only_code_that_ran_and_worked_is_taken_from_a_recording(data: Path) -> None:
    async with opened(data) as app:
        good = await run(app, "def run():\n    'One.'\n    return 1\nresult = run()")
        bad = await run(app, "def run():\n    'One.'\n    return 1\nresult = run() / 0")
        bash = await run(app, "echo hello", language="bash")

    def code_of(run_id: str, reader: Any = None) -> bytes:
        with open_recordings(Settings.load({}, data_dir=data), os.environ) as recordings:
            return code_that_worked(reader or recordings, FileJournalReader(journal_path(data)), run_id)

    def recording() -> Recording:
        with open_recordings(Settings.load({}, data_dir=data), os.environ) as recordings:
            return recordings.load(good.run_id)

    assert (await aside(code_of, good.run_id)).startswith(b"def run():")
    kept = await aside(recording)
    changed = replace(kept, header=replace(kept.header, code=kept.header.code.replace("return 1", "return 2")))
    with pytest.raises(RecordingError, match="its code is not what the audit journal says"):
        await aside(code_of, good.run_id, OneRecording(changed))
    with pytest.raises(InputError, match="did not end well"):
        await aside(code_of, bad.run_id)
    with pytest.raises(InputError, match="only Python can be imported"):
        await aside(code_of, bash.run_id)
    with pytest.raises(RecordingError, match="there is no execution"):
        await aside(code_of, "run_" + "0" * 32)


async def test_a_library_that_cannot_be_shown_is_tried_again(
    data: Path, store: LibraryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    code = b"import importlib.util\nresult = importlib.util.find_spec('actions') is not None"
    async with opened(data) as app:
        session = app.runtime.session(app.caller_grant)
        seen = [await session.execute(CodeRequest(code=code))]
        await aside(store.save, action("one", constant(1)))
        with monkeypatch.context() as patch:
            patch.setattr("moonpool.engine.tool_registry.write_tree", fail)
            seen.append(await session.execute(CodeRequest(code=code)))
        seen.append(await session.execute(CodeRequest(code=code)))
    assert [envelope.data for envelope in seen] == [False, False, True]
    assert "the changed library cannot be shown: the disk is full" in caplog.text


class OneRecording:
    """A reader that has one recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def load(self, run_id: str) -> Recording:
        assert run_id == self._recording.header.run_id
        return self._recording


async def test_every_change_by_a_person_is_on_record(tmp_path: Path) -> None:
    store, journal = LibraryStore(tmp_path / "library"), MemoryJournal()
    changes = LibraryChanges(store, journal, "somebody", has_ended=lambda _: False)
    one = LibrarySource(kind="action", name="one", files={ACTION_FILE: constant(1).encode()}, run_id="run_1")
    two = action("one", constant(2))
    await changes.save(one)
    await changes.save(two, replace=True)
    await changes.remove("action", "one")
    with pytest.raises(InputError, match="no function `run`"):
        await changes.save(action("one", "x = 1"))
    rows = [row.to_json() for row in journal.rows]
    named = ("action", "entry", "before_digest", "after_digest", "from_run")
    changed = [tuple(row[name] for name in named) for row in rows]
    assert changed[1::2] == [
        ("saved", "actions.one", "", one.digest, "run_1"),
        ("replaced", "actions.one", one.digest, two.digest, ""),
        ("removed", "actions.one", two.digest, "", ""),
    ]
    assert changed[0::2] == changed[1::2]
    assert [row["kind"] for row in rows] == ["library_intent", "library"] * 3
    assert [row["run_id"] for row in rows[0::2]] == [row["run_id"] for row in rows[1::2]]
    assert {(row["error_type"], row["settled"]) for row in rows[1::2]} == {("", False)}


async def test_nothing_changes_that_cannot_be_put_on_record(tmp_path: Path) -> None:
    class Broken:
        async def record(self, entry: object) -> None:
            raise JournalError(f"the disk is full: {entry!r:.1}")

    store = LibraryStore(tmp_path / "library")
    changes = LibraryChanges(store, Broken(), "somebody", has_ended=lambda _: False)
    with pytest.raises(JournalError):
        await changes.save(action("one", constant(1)))
    assert (await aside(store.load)).sources == ()
    await aside(store.save, action("one", constant(1)))
    with pytest.raises(JournalError):
        await changes.save(action("one", constant(2)), replace=True)
    with pytest.raises(JournalError):
        await changes.remove("action", "one")
    assert (await aside(store.load)).sources == (action("one", constant(1)),)


@pytest.mark.req("I-103")
async def test_code_finds_and_reads_actions_without_their_implementation(data: Path, store: LibraryStore) -> None:
    await aside(store.save, action("texts.shout", SHOUT))
    code = """
from client.catalog import definition, search
hits = search("shout a text")
narrowed = [search("shout text", server="actions"), search("shout text", server="echo"),
            search("shout text", read_only=True), search("text", server="actions", limit=1)]
result = [hits[0], hits[0].path, hits[0].server, hits[0].tool, definition(hits[0].path),
          [[hit.server for hit in one] for one in narrowed]]
"""
    async with opened(data) as app:
        envelope = await run(app, code)
    assert envelope.ok, envelope.error
    assert isinstance(envelope.data, list)
    *hit, stub, narrowed = envelope.data
    assert hit == ["actions.texts.shout — action: Shout a text", "actions.texts.shout", "actions", "texts.shout"]
    assert str(stub).startswith("from actions.texts.shout import run\n")
    assert "echo" not in str(stub)
    assert isinstance(narrowed, list)
    assert narrowed[0] == narrowed[3] == ["actions"]
    assert isinstance(narrowed[1], list)
    assert isinstance(narrowed[2], list)
    assert "actions" not in [*narrowed[1], *narrowed[2]]


async def test_a_change_that_is_cancelled_meanwhile_is_on_record(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(LibraryStore):
        def save(self, *change: Any, **how: Any) -> LibrarySource | None:
            begun.set()
            assert go_on.wait(30)
            return super().save(*change, **how)

    journal = MemoryJournal()
    store = Slow(tmp_path / "library")
    changes = LibraryChanges(store, journal, "somebody", has_ended=lambda _: False)
    saving = asyncio.ensure_future(changes.save(action("one", constant(1))))
    await aside(begun.wait)
    saving.cancel()
    asyncio.get_running_loop().call_soon(go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await saving
    await aside(lambda: None)
    kept = (await aside(store.load)).sources
    assert [source.digest for source in kept] * 2 == [row.to_json()["after_digest"] for row in journal.rows]
    assert len(kept) == 1


def test_an_entry_that_cannot_be_written_as_json_loses_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(source: LibrarySource) -> LibraryEntry:
        return replace(read_action(source), title="\ud800" if source.name == "odd" else "")

    monkeypatch.setattr("moonpool.features.library.service.READERS", {"action": odd})
    store = LibraryStore(tmp_path / "library")
    for name in ("good", "odd"):
        store.save(action(name, constant(1)))
    shown = LibraryView(store, tell=lambda _: None).read()
    assert [entry.name for entry in shown.library.entries] == ["good"]
    assert "action 'odd' is left out: its text cannot be shown" in shown.problems[0]
