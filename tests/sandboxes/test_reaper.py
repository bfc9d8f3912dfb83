"""The reaper alone, over its socket. Its host is a process that a test can end without ending itself."""

from __future__ import annotations

import array
import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moonpool.sandboxes import reaper
from moonpool.sandboxes.identity import UID_FIRST
from process_tree import children_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

SRC = Path(reaper.__file__).parents[2]
UID = str(UID_FIRST) if os.geteuid() == 0 else ""
STARTS = 8
REFUSE = """
def refuse(*_):
    raise OSError({code}, "no")
{what} = refuse
"""
"""Makes a call of the reaper fail."""


class Served:
    """A reaper with a folder to remove. `changes` are statements that it runs first."""

    def __init__(self, folder: Path, changes: str = "") -> None:
        self.host = subprocess.Popen(["/bin/sleep", "600"])
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(30)
        host_fd = os.pidfd_open(self.host.pid)
        program = (
            f"import os, sys; sys.path.append({str(SRC)!r})\nfrom moonpool.sandboxes import reaper\n{changes}\n"
            f"reaper.main({theirs.fileno()}, {host_fd}, {str(folder)!r}, [])"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program], pass_fds=(theirs.fileno(), host_fd), env=os.environ
        )
        theirs.close()
        os.close(host_fd)

    def start(self, *command: str) -> list[bytes]:
        """Ask for an outer sandbox; return the first message."""
        with Path(os.devnull).open("wb") as null:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null.fileno()] * 2))]
            self.control.sendmsg(["\0".join(("start", "1", UID, "", "", *command)).encode()], rights)
        return self.hear()

    def hear(self) -> list[bytes]:
        packet, fds, _, _ = socket.recv_fds(self.control, 4096, 4)
        for fd in fds:
            os.close(fd)
        return packet.split(b"\0")

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def close(self) -> None:
        self.control.close()
        for process in (self.host, self.process):
            process.kill()
            process.wait()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "slots").mkdir(parents=True)
    return folder


@pytest.fixture
def serve(folder: Path) -> Generator[Callable[..., Served]]:
    served: list[Served] = []

    def begin(changes: str = "") -> Served:
        served.append(Served(folder, changes))
        return served[-1]

    yield begin
    for one in served:
        one.close()


# --- what is removed, and when


def test_the_end_of_the_socket_alone_removes_nothing(serve: Callable[..., Served], folder: Path) -> None:
    served = serve("reaper._DYING_S = 0")
    served.control.close()
    assert served.process.wait(30) == 0
    assert served.host.poll() is None
    assert (folder / "slots").exists()


def test_the_end_of_the_host_removes_its_folder(serve: Callable[..., Served], folder: Path) -> None:
    served = serve()
    served.host.kill()
    assert served.process.wait(30) == 0
    assert not folder.exists()


def test_a_host_whose_socket_ends_a_moment_before_itself_is_cleaned_up_after(
    serve: Callable[..., Served], folder: Path
) -> None:
    served = serve("reaper._DYING_S = 60")
    served.start("/bin/sleep", "600")
    served.control.close()
    while children_of(served.process.pid):  # nobody announces that it has noticed
        os.sched_yield()
    served.host.kill()
    assert served.process.wait(30) == 0
    assert not folder.exists()


def test_after_a_farewell_nothing_is_removed(serve: Callable[..., Served], folder: Path) -> None:
    served = serve()
    served.control.send(b"bye")
    assert served.process.wait(30) == 0
    assert (folder / "slots").exists()


# --- outer sandboxes


def test_an_outer_sandbox_is_killed_by_its_id(serve: Callable[..., Served]) -> None:
    served = serve()
    assert served.start("/bin/sleep", "600")[:2] == [b"started", b"1"]
    served.control.send(b"end\x002")
    served.control.send(b"end\x001")
    assert served.hear() == [b"ended", b"1", b"%d" % signal.SIGKILL]


def test_a_command_that_does_not_exist_is_refused(serve: Callable[..., Served]) -> None:
    assert serve().start("/nowhere") == [b"refused", b"1", b"%d" % errno.ENOENT]


@pytest.mark.parametrize(
    ("what", "code"),
    [
        pytest.param("os.fork", errno.EAGAIN, id="no process"),
        pytest.param("reaper.fcntl.fcntl", errno.EMFILE, id="no descriptor in the child"),
        pytest.param("os.pidfd_open", errno.ENFILE, id="no pidfd of it"),
    ],
)
def test_a_start_that_fails_half_way_leaves_no_process_and_no_descriptor(
    what: str, code: int, serve: Callable[..., Served]
) -> None:
    served = serve(REFUSE.format(what=what, code=code))
    assert served.start("/bin/sleep", "600") == [b"refused", b"1", b"%d" % code]
    descriptors = served.descriptors()
    for _ in range(STARTS):
        assert served.start("/bin/sleep", "600") == [b"refused", b"1", b"%d" % code]
    assert served.descriptors() < descriptors + STARTS  # what came with the last packet may still be open
    assert children_of(served.process.pid) == []
