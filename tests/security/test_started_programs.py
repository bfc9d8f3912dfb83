"""Every program that the host starts, and why none of them is one that code of a sandbox wrote."""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

import moonpool
from moonpool.bootstrap import programs
from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.embeddings.fetch import fetch_weights
from moonpool.features.approvals.model import ApprovalRequest
from moonpool.features.approvals.notification import Announcer
from moonpool.sandboxes import code_writable

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(moonpool.__file__).parent
STARTS = re.compile(
    r"subprocess\.(?:run|Popen|call|check_\w+|get\w+)|anyio\.(?:open|run)_process|\S*\.create_subprocess_\w+"
    r"|\S*\.subprocess_(?:exec|shell)|os\.(?:system|popen|exec\w+|spawn\w+|posix_spawnp?)|pty\.spawn|webbrowser\.\w+"
    r"|shutil\.which|multiprocessing\.\w+|\S*ProcessPoolExecutor|\S*find_library"
)
FROM = {"subprocess", "pty", "webbrowser", "multiprocessing"}
CHECKED = "its module takes the places of code out of PATH"
ABSOLUTE = "an absolute path of our own, with no PATH"
NO_CODE_YET = "a command that has run no code, with the variables it was started with itself"
STARTED = {
    "bootstrap/programs.py _npm_that_must_install": CHECKED,
    "cli/login.py _show": NO_CODE_YET,
    "cli/service_start.py _spawn": NO_CODE_YET,
    "cli/server_import.py _say_next": "a path that is shown, not started",
    "code_reading/reader.py _start": ABSOLUTE,
    "embeddings/fetch.py fetch_weights": CHECKED,
    "environments/build.py _install": CHECKED,
    "environments/build.py _run_dropped": "our Python, PATH is /usr/bin:/bin",
    "environments/node_tools.py _run": CHECKED,
    "environments/package_index.py main": "for the Makefile, which has no sandboxes",
    "environments/package_index.py public_index": "our Python with -I, which starts no program",
    "environments/package_index.py read_pip_settings": "our Python with -P, without PYTHONPATH; starts no program",
    "environments/runtimes.py _ask_version": CHECKED,
    "features/approvals/notification.py _run": CHECKED,
    "sandboxes/folder_copies.py can_map": "our Python with -I -S, which starts no program",
    "sandboxes/folder_trees.py remove_tree": "/bin/rm, which starts no program",
    "sandboxes/process.py find_launcher": "looked up in folders of the system",
    "sandboxes/reaper.py _become": ABSOLUTE,
    "sandboxes/reaper_client.py _popen_reaper": ABSOLUTE,
    "upstreams/process.py start": CHECKED,
}
"""By module and function."""


def started(tree: ast.AST, function: str = "") -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module in FROM:
            yield f"from {node.module} import: write the module's name at the call"
        if isinstance(node, ast.Call) and STARTS.fullmatch(ast.unparse(node.func)):
            yield function
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield from started(node, inner)


@pytest.mark.claim("C-FOLD-2")
def test_it_is_known_of_every_program_why_it_is_none_of_codes() -> None:
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        names = {f"{path.relative_to(SOURCE)} {function}" for function in started(ast.parse(text))}
        found |= names
        if CHECKED in {STARTED.get(name) for name in names}:
            assert text.count("variables_without_code") > 1, path
    assert found == STARTED.keys()


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs where code may write; the current directory, too."""
    monkeypatch.setattr(code_writable, "_written", {(tmp_path / "code", ())})
    folder = tmp_path / "code/node_modules/.bin"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_npm_is_not_looked_up_where_code_may_write(codes: Path, tmp_path: Path) -> None:
    script(codes / "npm", "")
    for rest in ("/nonexistent", ""):
        assert programs._npm_that_must_install(tmp_path, {"PATH": f"{codes}:{rest}"}) != str(codes / "npm")
    own = script(tmp_path / "own/npm", "")
    assert programs._npm_that_must_install(tmp_path, {"PATH": f"{codes}::{own.parent}"}) == str(own)


@pytest.mark.anyio
@pytest.mark.parametrize("command", ["notify-me", "{own}/notify-it"])
async def test_code_provides_no_program_that_is_told_of_a_question(codes: Path, tmp_path: Path, command: str) -> None:
    told, own = tmp_path / "told", tmp_path / "own"
    script(codes / "notify-me", f"echo code >> {shlex.quote(str(told))}")
    for name in ("notify-me", "notify-it"):
        script(own / name, f'echo own "$PATH" "$PWD" >> {shlex.quote(str(told))}')
    announcer = Announcer(command.format(own=os.path.relpath(own)), {"PATH": f"{codes}:{own}"})
    announcer.tell(
        ApprovalRequest(
            request_id="1", run_id="run_1", principal="local:a", server_id="box", tool_name="t", arguments="{}",
            arguments_digest="sha256:0", reason="",
        )
    )  # fmt: skip
    with anyio.fail_after(20):
        for task in tuple(announcer._running):
            await task
    assert told.read_text(encoding="utf-8") == f"own {own} /\n"


def test_code_says_neither_where_weights_come_from_nor_what_fetches_them(
    codes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    monkeypatch.setattr(sys, "executable", str(script(tmp_path / "python", f'echo "$PWD" "$PATH" > {told}; exit 1')))
    (place := tmp_path / "weights").mkdir()
    with pytest.raises(DenseUnavailableError):
        fetch_weights(place, {"PATH": f"{codes}:/usr/bin:/bin"})
    assert told.read_text(encoding="utf-8") == f"{place} /usr/bin:/bin\n"
