"""Files on the command line: with `moonpool run`, and with a named session from other processes."""

from __future__ import annotations

import os
import socket
import tarfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apps import DATA
from cli.at_socket import at_socket
from cli.console import moonpool, run_code
from moonpool.store.service_socket import ServiceFolder
from wire.test_pictures import png

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def session(tmp_path: Path) -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    moonpool(tmp_path, "session", "close", name)


def test_a_run_gets_its_files_and_gives_files_back(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1,2\n", encoding="utf-8")
    code = "open('out.csv', 'w').write(open('data/in.csv').read() * 2)"
    ended = run_code(tmp_path, code, "--put", "in.csv:data/in.csv", "--get", "out.csv", "--get", "data/in.csv:again")
    assert ended.result["ok"]
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == "1,2\n1,2\n"
    assert (tmp_path / "again").read_text(encoding="utf-8") == "1,2\n"


@pytest.mark.req("X-07")
def test_a_picture_comes_back_by_name_and_the_line_says_where_files_are(tmp_path: Path) -> None:
    ended = run_code(tmp_path, f"display({png()!r}); open('log', 'w').write('x')", "--get", "picture-1.png:chart.png")
    assert (tmp_path / "chart.png").read_bytes() == png()
    log, picture = ended.result["files"]
    assert (log["name"], log["bytes"]) == ("log", 1)
    assert (picture["name"], picture["mime"], picture["bytes"]) == ("picture-1.png", "image/png", len(png()))
    assert Path(picture["path"]).read_bytes() == png()


def test_files_come_back_from_code_that_failed_too(tmp_path: Path) -> None:
    ended = run_code(tmp_path, "open('log', 'w').write('so far'); 1/0", "--get", "log")
    assert ended.error_type == "ZeroDivisionError"
    assert (tmp_path / "log").read_text(encoding="utf-8") == "so far"


def test_what_is_not_there_is_said_and_the_line_still_printed(tmp_path: Path) -> None:
    ended = run_code(tmp_path, "result = 1", "--get", "missing")
    assert ended.exit_code == 1
    assert b'"data":1' in ended.stdout
    assert "missing: there is no such file" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_died_with_its_sandbox_is_said(tmp_path: Path) -> None:
    ended = run_code(tmp_path, "open('log', 'w').close(); import os; os._exit(3)", "--get", "log")
    assert ended.exit_code == 1
    assert "has ended, and its files with it" in ended.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--put", "missing"], "missing: no such file", id="no such file"),
        pytest.param(["--put", "."], "not a regular file", id="a folder"),
        pytest.param(["--put", "there:/etc/x"], "/etc/x: it is not below", id="outside"),
        pytest.param(["--put", ":x"], "does not name a file", id="no name"),
        pytest.param(["--get", "there"], "is there already", id="would overwrite"),
        pytest.param(["--get", "a\nb"], "is no name for a file here", id="a name that is none"),
    ],
)
def test_files_that_cannot_be_moved_stop_the_run_before_it_begins(
    tmp_path: Path, options: list[str], said: str
) -> None:
    (tmp_path / "there").write_text("kept", encoding="utf-8")
    assert said in run_code(tmp_path, "print('ran')", *options).sentence
    assert (tmp_path / "there").read_text(encoding="utf-8") == "kept"


def test_force_lets_a_run_replace_files(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old", encoding="utf-8")
    run_code(tmp_path, "open('out', 'w').write('new')", "--get", "out", "--force")
    assert (tmp_path / "out").read_text(encoding="utf-8") == "new"


def test_files_move_in_and_out_of_a_named_session(tmp_path: Path, session: str) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "big").write_bytes(data)
    (tmp_path / "small").write_text("small", encoding="utf-8")
    run_code(tmp_path, "import os; os.symlink('/etc', 'out')", "--session", session, "--put", "small:d/small")
    put = moonpool(tmp_path, "session", "put", session, "big", "d/big")
    assert (put.exit_code, put.stdout.startswith(b"d/big: 3,000,000 bytes, sha256 ")) == (0, True)
    assert moonpool(tmp_path, "session", "get", session, "d/big", "back").exit_code == 0
    assert (tmp_path / "back").read_bytes() == data
    listed = moonpool(tmp_path, "session", "files", session, "d", "--json").stdout
    assert [b'"path":"big"' in listed, b'"path":"small"' in listed] == [True, True]
    packed = moonpool(tmp_path, "session", "archive", session, "-o", "all.tar")
    assert "3 entries were left out" in packed.stderr
    with tarfile.open(tmp_path / "all.tar") as tar:
        assert tar.getnames() == ["d", "d/big", "d/small"]
    assert moonpool(tmp_path, "session", "archive", session, "d", "--into", "tree").exit_code == 0
    assert (tmp_path / "tree" / "big").read_bytes() == data
    assert moonpool(tmp_path, "session", "put", session, "all.tar", "copy", "--unpack").exit_code == 0
    assert run_code(tmp_path, "result = open('copy/d/small').read()", "--session", session).result["data"] == "small"


def test_refusals_of_a_named_session_are_one_sentence(tmp_path: Path, session: str) -> None:
    (tmp_path / "big").write_bytes(os.urandom(3_000_000))
    run_code(tmp_path, "open('there', 'w').close()", "--session", session)
    refused = moonpool(tmp_path, "session", "put", session, "big", "there").sentence
    assert "there: it is there already" in refused
    assert refused.endswith(" [target_exists]")
    missing = moonpool(tmp_path, "session", "get", session, "missing").sentence
    assert "there is no such file" in missing
    assert missing.endswith(" [file_missing]")
    assert "is there already" in moonpool(tmp_path, "session", "get", session, "there", "big").sentence
    (tmp_path / "bad.zip").write_bytes(b"PK" + os.urandom(3_000_000))
    assert "no zip" in moonpool(tmp_path, "session", "put", session, "bad.zip", "--unpack").sentence
    assert "there is no session" in moonpool(tmp_path, "session", "files", "nobody").sentence
    forced = moonpool(tmp_path, "session", "archive", session, "--into", "tree", "--force")
    assert "--into makes a new folder and replaces nothing" in forced.sentence
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.zip", "big"]


def test_names_in_a_listing_do_not_reach_the_terminal(tmp_path: Path, session: str) -> None:
    code = r"for name in [b'\x1b[2J\x1b[31m', 'a\u202eb'.encode(), b'\xff', b'two\nlines']: open(name, 'w').close()"
    run_code(tmp_path, code, "--session", session)
    shown = moonpool(tmp_path, "session", "files", session).stdout.decode()
    assert not [char for char in shown if char != "\n" and not char.isprintable()]
    assert "(escaped)" in shown


def test_an_upload_whose_client_goes_away_leaves_nothing(tmp_path: Path, session: str) -> None:
    run_code(tmp_path, "x = 1", "--session", session)
    _, listed = at_socket(DATA, "GET", "/v1/sessions")
    (session_id,) = [one["id"] for one in listed["sessions"] if one["name"] == session]
    folder = ServiceFolder(DATA)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(folder.address)
        head = f"PUT /v1/sessions/{session_id}/files/content?path=half HTTP/1.1\r\nhost: moonpool\r\n"
        client.sendall(head.encode() + b"content-length: 100000000\r\n\r\n")
        client.sendall(os.urandom(4_000_000))
    folder.close()
    code = "import os; s = os.statvfs('.'); result = [x, os.path.exists('half'), (s.f_blocks - s.f_bfree) * s.f_frsize]"
    ended = run_code(tmp_path, code, "--session", session)
    x, exists, used = ended.result["data"]
    assert (x, exists) == (1, False)
    assert used < 1_000_000
