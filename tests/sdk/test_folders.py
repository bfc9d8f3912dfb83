"""A folder of this machine as the workspace of a session."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import moonpool
from apps import fixture_server

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
async def test_the_workspace_is_the_folder(face: Coroutines | PlainCalls, folder: Path) -> None:
    (folder / "in.txt").write_text("of the host", encoding="utf-8")
    async with face.session(servers=ECHO, workspace=folder) as s:
        ran = await s.run(
            "import os\nfrom servers.echo import text\nr = await text(text=open('in.txt').read())\n"
            "open('out.txt', 'w').write(r.data)\n[os.getcwd(), sorted(os.listdir('/workspace'))]"
        )
        assert ran.check().data == [str(folder), ["in.txt", "out.txt"]]
        assert (folder / "out.txt").read_text(encoding="utf-8") == "of the host"
        assert (folder / "out.txt").stat().st_uid == os.geteuid()
        await s.files.write("put.txt", "by the application")
        listed = await s.run("ls; moonpool call echo.text '{\"text\": 1}'", language="bash")
        assert listed.stdout == "in.txt\nout.txt\nput.txt\n"
        assert "tools can be called" in listed.stderr
        await s.reset()
        assert (await s.run("open('put.txt').read()")).data == "by the application"
    assert sorted(path.name for path in folder.iterdir()) == ["in.txt", "out.txt", "put.txt"]


async def test_code_with_a_folder_can_have_a_network(face: Coroutines | PlainCalls, folder: Path) -> None:
    async with face.session(workspace=folder, network=["a.example"]) as s:
        ran = await s.run(
            "import socket, urllib.error, urllib.request\n"
            "try:\n    urllib.request.urlopen('http://evil.example/', timeout=30)\n"
            "except urllib.error.URLError as error:\n    open('said', 'w').write(str(error.reason))\n"
            "try:\n    socket.socket(socket.AF_UNIX)\n"
            "except OSError as error:\n    result = error.strerror"
        )
    assert ran.check().data == "Address family not supported by protocol"
    assert "not among the domains" in (folder / "said").read_text(encoding="utf-8")


async def test_what_cannot_be_meant_with_a_folder_is_refused(face: Coroutines | PlainCalls, folder: Path) -> None:
    for options in ({"checkpoints": True}, {"files": {"a": "b"}}):
        with pytest.raises(moonpool.InputError, match="workspace= is a folder of this machine"):
            async with face.session(workspace=folder, **options):
                pass
    with pytest.raises(moonpool.FolderError, match=r"\[?it is the system's own"):
        async with face.session(workspace="/etc"):
            pass
