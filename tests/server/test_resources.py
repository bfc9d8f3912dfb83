"""Files that code made, as resources of one connection."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from moonpool.core.created_files import MadeFile, MadeFiles
from moonpool.engine.files.errors import FileMissingError, FileTooLargeError
from moonpool.redaction.redactor import Redactor
from moonpool.server.mcp import resources
from moonpool.server.mcp.resources import LISTED_MAX, McpResources, uri_of
from server.test_answers import envelope
from wire.test_pictures import png

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.envelope import Envelope
    from moonpool.server.mcp.sessions import McpSessions

pytestmark = pytest.mark.anyio


class FakeSessions:
    """Sessions by name, and their files by path below `/workspace`."""

    def __init__(self, **files: dict[str, bytes]) -> None:
        self.files = files

    def has(self, name: str) -> bool:
        return name in self.files

    async def read_file(self, name: str, path: str, sink: Callable[[bytes], Awaitable[None]]) -> None:
        if path not in self.files[name]:
            raise FileMissingError(path)
        for number in range(0, len(self.files[name][path]), 1000):
            await sink(self.files[name][path][number : number + 1000])


def resources_of(**files: dict[str, bytes]) -> McpResources:
    return McpResources(
        cast("McpSessions", FakeSessions(**files)), Redactor.of_values({"TOKEN": "a-secret-of-the-operator"})
    )


def made(*files: MadeFile, **members: Any) -> Envelope:
    found = envelope(1)
    return type(found)(
        **{**{name: getattr(found, name) for name in found.__slots__}, "made": MadeFiles(files=files), **members}
    )


def file_of(path: Path, data: bytes = b"x", *, name: str = "") -> MadeFile:
    path.write_bytes(data)
    return MadeFile(name=name or path.name, size=len(data), path=str(path))


@pytest.mark.req("C-027", "C-028", "C-041")
async def test_contents_are_text_or_bytes_by_what_they_are_and_without_secrets() -> None:
    files = {
        "a b.csv": b"1,a-secret-of-the-operator",
        "no.csv": b"\xff",
        "p.png": png(),
        "no.png": b"<script>",
        "x.bin": b"text",
    }
    ours = resources_of(s=files)
    told = {name: await ours.read(uri_of("s", name)) for name in files}

    assert {name: (read.mime, read.text is None) for name, read in told.items()} == {
        "a b.csv": ("text/csv", False),
        "no.csv": ("application/octet-stream", True),
        "p.png": ("image/png", True),
        "no.png": ("application/octet-stream", True),
        "x.bin": ("application/octet-stream", True),
    }
    assert "a-secret" not in str(told["a b.csv"].text)
    assert told["p.png"].data == png()


@pytest.mark.req("C-028", "C-039", "C-040")
async def test_a_connection_reads_its_own_sessions_and_runs_and_no_other_path(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    ours, others = resources_of(s={"a": b"1"}), resources_of(t={})
    ours.know(made(file_of(tmp_path / "kept.txt"), run_id="run_1"), None)
    ours.know(made(MadeFile(name="a", size=1, path="/workspace/a")), "s")
    ours.know(made(MadeFile(name="lost", size=1, path=None)), "s")
    ours.know(made(MadeFile(name="passwd", size=1, path="/etc/passwd")), "ended")

    assert [uri for uri, _ in ours.listed()] == ["moonpool://s/a", "moonpool://run_1/kept.txt"]
    assert (await ours.read("moonpool://run_1/kept.txt")).text == "x"
    for theirs in (others, ours):
        for uri in (
            *(["moonpool://s/a", "moonpool://run_1/kept.txt"] if theirs is others else []),
            *(
                "moonpool://gone/a",
                "moonpool://s/b",
                "moonpool://ended/passwd",
                "moonpool://s",
                "moonpool://s/",
                "moonpool:///a",
                "file:///a",
                "",
            ),
            *("moonpool://s/../a", "moonpool://s/%2e%2e/a", "moonpool://s//etc/passwd", "moonpool://s/%2Fetc%2Fpasswd"),
            *(
                "moonpool://s//workspace/a",
                "moonpool://s//tmp/a",
                "moonpool://s/a%00",
                "moonpool://s/%ff",
                "moonpool://s/.",
            ),
            *("moonpool://run_1/../secret", "moonpool://run_1/secret", f"moonpool://run_1/{tmp_path}/secret"),
            f"moonpool://run_1/%2e%2e/{tmp_path.name}/secret",
        ):
            with pytest.raises(FileMissingError, match=r"there is no resource|^b$|^a$"):
                await theirs.read(uri)


@pytest.mark.req("C-028")
async def test_what_was_removed_or_is_too_large_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "BYTES_MAX", 2000)
    ours = resources_of(s={"large": bytes(2001), "fits": bytes(2000)})
    ours.know(made(file_of(tmp_path / "gone"), file_of(tmp_path / "large", bytes(2001)), run_id="r"), None)
    (tmp_path / "gone").unlink()

    assert len((await ours.read("moonpool://s/fits")).data) == 2000
    for uri in ("moonpool://s/large", "moonpool://r/large"):
        with pytest.raises(FileTooLargeError):
            await ours.read(uri)
    with pytest.raises(FileMissingError, match="artifact_total_bytes_max"):
        await ours.read("moonpool://r/gone")
    assert [uri for uri, _ in ours.listed()] == ["moonpool://r/large"]


def test_the_latest_files_are_listed() -> None:
    ours = resources_of(s={})
    for number in range(LISTED_MAX + 1):
        ours.know(made(MadeFile(name=str(number), size=1, path="/x")), "s")
    ours.know(made(MadeFile(name="1", size=1, path="/x")), "s")
    listed = [file.name for _, file in ours.listed()]
    assert (len(listed), listed[:2], listed[-1]) == (LISTED_MAX, ["1", str(LISTED_MAX)], "2")


@pytest.mark.req("C-035", "C-036", "C-037")
@pytest.mark.parametrize("session", ["a", "a b", "ä/ö", "%2e%2e", "a#b?c", "..", "[::1]", "\u2028"])
@pytest.mark.parametrize("path", ["x", "a b/c#d?e", "ü.png", "100%", "[1]"])
async def test_addresses_are_of_our_scheme_and_follow_the_rules_of_addresses(session: str, path: str) -> None:
    uri = uri_of(session, path)
    ours = resources_of(**{session: {path: b"1"}})

    assert re.fullmatch(r"moonpool://(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})+(?:/(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})+)+", uri)
    assert (await ours.read(uri)).data == b"1"
