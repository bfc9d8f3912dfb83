"""Code of a client is parsed in a process with limits: never in the host, and no text takes the host with it."""

from __future__ import annotations

import asyncio
import builtins
import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.test_preview import MANIFEST, here
from moonpool.code_reading import reader as code_reader
from moonpool.code_reading.names import NameIndex
from moonpool.code_reading.scopes import TooManyNodesError
from moonpool.core.errors import InputError
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import LibrarySource
from moonpool.features.library.service import LibraryChanges
from moonpool.features.library.table import LibraryStore
from moonpool.features.preview.service import preview_code
from moonpool.store.fake import MemoryJournal
from moonpool.wrappers.names import name_manifest
from tables import every_row

ENDLESS = b"import " + b"a." * 200_000 + b"a"
ACTION = b'def run(count: int = 3) -> int:\n    """Count."""\n    return count\n'


@every_row(
    "code",
    [
        pytest.param("import servers.time as t\nt.convert_time(time='09:00', **more)", id="arguments left open"),
        pytest.param("from servers.git import git_log as f\nf(repo_path=[1, {'a': x}], max_count='3')", id="unread"),
        pytest.param("from servers.tiem import *\nimport mcptools.git.git_statu", id="misses"),
        pytest.param("import servers.gone, actions.one\ngetattr(servers.time, name)()", id="unreachable, computed"),
        pytest.param("from client.mcp_client import call_tool\ncall_tool('git', '\\ud800', {})", id="half a pair"),
        pytest.param("from servers.mail import fetch\nfetch(from_='me', to=1e300)", id="names of the server"),
        pytest.param("x = (\n", id="no code"),
        pytest.param("\ufeffx = 1", id="byte order mark"),
        pytest.param("x = " + "(" * 150, id="deep"),
    ],
)
def test_the_process_reads_as_the_reader_does(code: str) -> None:
    raw = {"name": "fetch", "inputSchema": {"type": "object", "properties": {"from": {"type": "string"}}}}
    mail = ServerListing(server_id="mail", tools=(ToolDefinition(server_id="mail", name="fetch", raw=raw),))
    manifest = Manifest(servers=(*MANIFEST.servers, mail))
    there = preview_code(code.encode(), manifest, missing=("gone",))
    assert there == preview_code(code.encode(), manifest, missing=("gone",), reader=here)


def test_the_host_parses_no_code_of_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("the host must not parse this")

    changes = LibraryChanges(LibraryStore(tmp_path), MemoryJournal(), "somebody", has_ended=lambda _: False)
    source = LibrarySource(kind="action", name="one", files={ACTION_FILE: ACTION})
    preview_code(ACTION, MANIFEST)  # what is imported meanwhile is there by now
    with monkeypatch.context() as patched:
        patched.setattr(builtins, "compile", refused)
        shown = preview_code(b"import servers.time as t\nt.convert_time(time='x')", MANIFEST)
        trimmed = code_reader.trim(ACTION + b"print(run())\n")
        entry = asyncio.run(changes.save(source))
    assert [(call.line, call.tool) for call in shown.calls] == [(2, "convert_time")]
    assert trimmed == (ACTION, ("print(run())",))
    assert entry.parameters["properties"] == {"count": {"type": "integer", "default": 3}}
    assert "def run(count: int = 3) -> int:" in entry.definition


BOUNDED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1500 * 1024**2,) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from moonpool.core.errors import InputError
from moonpool.core.manifest import Manifest
from moonpool.code_reading.reader import read_interface, trim
from moonpool.features.preview.service import preview_code
dotted = b"a." * 200_000 + b"a"
ways = [b"import " + dotted, b"import " + b"a . \\\\\\n" * 100_000 + b"a", b"from " + dotted + b" import x"]
for code in ways:
    for read in (lambda: preview_code(code, Manifest()), lambda: read_interface(code, "a", ""), lambda: trim(code)):
        try:
            read()
        except InputError as error:
            assert "a name of more than 1,000 parts" in str(error), error
        else:
            raise SystemExit("it was read")
print("refused")
"""


def test_a_name_without_end_is_refused_before_it_is_parsed() -> None:
    """In a process with a limit: before, the first of these took 23 GB."""
    done = subprocess.run([sys.executable, "-c", BOUNDED], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr[-2000:]


def test_a_text_that_costs_too_much_memory_is_too_large_and_ends_nothing() -> None:
    """The check of names left aside, the parser meets the limit of its own process."""

    with code_reader.reading_process(_index(), lambda *_: {}) as read:
        with pytest.raises(TooManyNodesError):
            read(ENDLESS)
        assert read(b"import servers.time").imports  # the same process goes on


@pytest.mark.slow
def test_a_text_that_costs_too_much_time_is_not_read() -> None:
    costly = b"importlib = 1\n" * 40_000 + b"importlib.import_module()\n" * 15_000
    shown = preview_code(costly, MANIFEST)
    assert re.search(r"that takes (more than 5 s of processor time|longer than 20 s)", shown.not_read)  # busy machine


def test_a_machine_that_starts_no_process_reads_nothing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert "no process can be started for it" in preview_code(b"x = 1", MANIFEST).not_read
    with pytest.raises(InputError, match="no process can be started for it"):
        code_reader.trim(ACTION)
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    assert "the process that reads it ended with status 0; is " in preview_code(b"x = 1", MANIFEST).not_read


def test_the_process_has_nothing_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees no environment, and descriptors of nobody else."""
    monkeypatch.setenv("SECRET_TOKEN", "secret-value-4711")
    with code_reader.reading_process(_index(), lambda *_: {}):
        mine = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text(encoding="utf-8").split()
        pid = mine[-1]
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        open_files = sorted(Path(f"/proc/{pid}/fd").iterdir())
        limits = Path(f"/proc/{pid}/limits").read_text(encoding="utf-8")
    assert b"secret-value-4711" not in environment
    assert len(open_files) == 4
    assert json.dumps(limits).count(str(512 * 1024**2)) == 2


def _index() -> NameIndex:
    return NameIndex(name_manifest(MANIFEST))
