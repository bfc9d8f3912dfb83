"""A folder of this machine as the workspace of a session."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import moonpool
from apps import DATA, fixture_server
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from collections.abc import Generator

    from sdk.faces import Coroutines, PlainCalls

pytestmark = pytest.mark.anyio
ECHO = {"echo": fixture_server("echo.py", allow=["*"])}


@pytest.fixture
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="moonpool-folder-", dir="/var/tmp") as made:
        yield Path(made)


@pytest.mark.req("X-04")
async def test_the_workspace_is_the_folder(local_face: Coroutines | PlainCalls, folder: Path) -> None:
    (folder / "in.txt").write_text("of the host", encoding="utf-8")
    async with local_face.session(servers=ECHO, workspace=folder) as s:
        ran = await s.run(
            "import os\nfrom servers.echo import text\nr = await text(text=open('in.txt').read())\n"
            "open('out.txt', 'w').write(r.data)\n[os.getcwd(), sorted(os.listdir('/workspace'))]"
        )
        assert ran.check().data == [str(folder), [".env", "in.txt", "out.txt"]]
        rows = await asyncio.to_thread(lambda: list(read_rows(journal_path(DATA), run_id=ran.run_id)))
        assert json.loads(rows[0].body)["folders"] == [f"rw {folder}"]
        assert (folder / "out.txt").read_text(encoding="utf-8") == "of the host"
        assert (folder / "out.txt").stat().st_uid == os.geteuid()
        await s.files.write("put.txt", "by the application")
        listed = await s.run("ls; moonpool call echo.text '{\"text\": 1}'", language="bash")
        assert listed.stdout == "in.txt\nout.txt\nput.txt\n"
        assert "tools can be called" in listed.stderr
        await s.reset()
        assert (await s.run("open('put.txt').read()")).data == "by the application"
    assert sorted(path.name for path in folder.iterdir()) == [".env", "in.txt", "out.txt", "put.txt"]


async def test_code_with_a_folder_can_have_a_network(local_face: Coroutines | PlainCalls, folder: Path) -> None:
    async with local_face.session(workspace=folder, network=["a.example"]) as s:
        ran = await s.run(
            "import socket, urllib.error, urllib.request\n"
            "try:\n    urllib.request.urlopen('http://evil.example/', timeout=30)\n"
            "except urllib.error.URLError as error:\n    open('said', 'w').write(str(error.reason))\n"
            "try:\n    socket.socket(socket.AF_UNIX)\n"
            "except OSError as error:\n    result = error.strerror"
        )
    assert ran.check().data == "Address family not supported by protocol"
    assert "not among the domains" in (folder / "said").read_text(encoding="utf-8")


async def test_what_cannot_be_meant_with_a_folder_is_refused(local_face: Coroutines | PlainCalls, folder: Path) -> None:
    for options in ({"checkpoints": True}, {"files": {"a": "b"}}):
        with pytest.raises(moonpool.InputError, match="workspace= is a folder of this machine"):
            async with local_face.session(workspace=folder, **options):
                pass
    with pytest.raises(moonpool.FolderError, match=r"\[?it is the system's own"):
        async with local_face.session(workspace="/etc"):
            pass


async def test_no_crash_and_no_undo_puts_files_of_the_folder_back(folder: Path) -> None:
    """Checkpoints are refused with a folder, and whatever else begins anew leaves its files as they are."""
    (folder / "a").write_text("of the host", encoding="utf-8")
    async with moonpool.session(workspace=folder) as s:
        await s.run("open('a', 'a').write(', code'); x = 1")
        (folder / "b").write_text("made meanwhile", encoding="utf-8")
        for back in (s.undo, s.fork, lambda: s.checkpoint("name")):
            with pytest.raises(moonpool.InputError, match="a folder of this machine has no checkpoints"):
                await back()
        ran = await s.run("open('c', 'w').write('1')\nimport os; os.kill(os.getpid(), 9)")
        assert ran.error is not None
        assert (ran.error.type, ran.recovered) == ("KernelKilled", None)
        assert "the variables of this session are lost" in ran.error.message
        ran = await s.run("[sorted(os.listdir()), open('a').read()] if (os := __import__('os')) else 0")
        assert ran.data == [[".env", "a", "b", "c"], "of the host, code"]
        await s.reset()
        folder.rename(away := folder.with_name(f"{folder.name}-away"))
        (folder / "of another").mkdir(parents=True)
        assert (await s.run("sorted(os.listdir()) if (os := __import__('os')) else 0")).data == [".env", "of another"]
        (folder / "of another").rmdir()
        (folder / ".env").unlink()
        folder.rmdir()
        ran = await s.run("import os; os.kill(os.getpid(), 9)")
        ran = await s.run("1")
        assert ran.error is not None
        assert ran.error.type == "FolderError"
        away.rename(folder)
        assert (await s.run("open('a').read()")).data == "of the host, code"


MOUNT_LATER = """
import asyncio, subprocess, sys
import moonpool

async def main(top):
    for command in (["mount", "--bind", top, top], ["mount", "--make-shared", top], ["mkdir", f"{top}/later"]):
        subprocess.run(command, check=True)
    async with moonpool.session(workspace=top) as s:
        await s.run("1")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", f"{top}/later"], check=True)
        open(f"{top}/later/secret", "wb").close()
        print((await s.run("__import__('os').listdir('later')")).check().data)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_what_is_mounted_below_the_folder_later_is_not_seen(folder: Path) -> None:
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", MOUNT_LATER, folder],
        capture_output=True, timeout=120, check=False, encoding="utf-8",
        env={**os.environ, "MOONPOOL_DATA_DIR": str(DATA)},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("[]\n", "")
