"""The Python of the pages about sessions, block by block: an index, an internet and folders of the test stand in."""

from __future__ import annotations

import ast
import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import moonpool
from apps import DATA
from docs.pages import read
from moonpool.network.destinations import Destinations
from network.sites import authority
from packages.fake_index import Index

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncGenerator
    from pathlib import Path

pytestmark = pytest.mark.anyio


class World:
    """What the blocks of one page need, and what came of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.names: dict[str, Any] = {}
        self.requests: list[tuple[str, str]] = []  # that reached the internet: host, its Authorization

    @asynccontextmanager
    async def home(self) -> AsyncGenerator[None]:
        self.monkeypatch.setenv("HOME", str(self.folder))
        report = self.folder / "projects" / "report"
        report.mkdir(parents=True)
        yield
        assert (report / "summary.txt").read_text(encoding="utf-8") == "done"

    @asynccontextmanager
    async def index(self) -> AsyncGenerator[None]:
        index = Index(self.folder)
        index.add("humanize", "4.17.0", files={"humanize.py": "def naturalsize(size): return '1.0 GB'\n"})
        index.add("tabulate")
        with index.served() as (address, _):
            self.monkeypatch.setenv("MOONPOOL_PACKAGE_INDEX", address)
            yield

    @asynccontextmanager
    async def internet(self) -> AsyncGenerator[None]:
        authorities, tls = authority(self.folder, "example.com", "api.example.com")
        (self.folder / "ca.pem").write_bytes(authorities)
        self.monkeypatch.setenv("MOONPOOL_NETWORK_CA_FILE", str(self.folder / "ca.pem"))
        self.monkeypatch.setenv("EXAMPLE_KEY", "a-key-of-this-test")

        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            told = [re.search(rf"(?im)^{name}: (.*)\r$", head) for name in ("host", "authorization")]
            self.requests.append((told[0][1] if told[0] else "", told[1][1] if told[1] else ""))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")
            await writer.drain()
            writer.close()

        async def connect(*_: object, **__: object) -> tuple[StreamReader, StreamWriter, str]:
            return *await asyncio.open_connection("127.0.0.1", port), "93.184.215.14"

        self.monkeypatch.setattr(Destinations, "connect", connect)
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
            port = server.sockets[0].getsockname()[1]
            yield

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[None]:
        async with moonpool.session(checkpoints=True) as self.names["s"]:
            await self.names["s"].run("x = 1")
            yield
            result = self.names["result"]
            assert result.recovered.run_ids == (result.run_id,)
            assert (await self.names["s"].run("x")).data == 1

    @asynccontextmanager
    async def nothing(self) -> AsyncGenerator[None]:
        yield


SLOW = [pytest.mark.slow, pytest.mark.timeout(300)]  # in the environment data
PAGES = [
    pytest.param("folders", "home", "", [], id="folders"),
    pytest.param("packages", "index", "installed humanize==4.17.0\n", [], id="packages"),
    pytest.param("network", "internet", "('*.example.org', 'files.example.net:8443')\n", [("example.com", "")]),
    pytest.param("network-credentials", "internet", "", [("api.example.com", "Bearer a-key-of-this-test")]),
    pytest.param("after-a-crash", "session", "", [], id="after-a-crash"),
    pytest.param("ipython", "nothing", "", [], marks=SLOW, id="ipython"),
    pytest.param("undo", "nothing", "", [], marks=SLOW, id="undo"),
]


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", read(f"docs/how-to/{page}.md"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("page", "stand_in", "printed", "requests"), PAGES)
async def test_the_python_of_a_page_runs(
    page: str,
    stand_in: str,
    printed: str,
    requests: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(DATA))
    world, run = World(tmp_path, monkeypatch), moonpool.Session.run
    async with getattr(world, stand_in)():
        if stand_in != "session":  # whose code dies

            async def checked(*given: Any, **options: Any) -> moonpool.Result:
                return (await run(*given, **options)).check()

            monkeypatch.setattr(moonpool.Session, "run", checked)
        program = next(block for block in blocks(page) if not block.startswith("%"))
        running = eval(compile(program, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), world.names)  # noqa: S307  our own page
        await running
        monkeypatch.setattr(moonpool.Session, "run", run)
    assert capsys.readouterr().out == printed
    assert world.requests == requests
    if page == "ipython":
        assert world.names["result"].text == "   a\n0  1\n1  2"
        assert set(world.names["result"].displays[0].forms) == {"text/html", "text/plain"}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_the_commands_of_the_page_on_packages_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONPOOL_DATA_DIR", str(DATA))
    [commands] = [block for block in blocks("packages") if block.startswith("%")]
    async with (
        World(tmp_path, monkeypatch).index(),
        moonpool.session(environment="data", packages="any", files={"requirements.txt": "tabulate\n"}) as s,
    ):
        said = (await s.run(commands)).check().stdout
    assert said.startswith("installed humanize==4.17.0, tabulate==1.0\n")


def test_no_block_of_these_pages_is_left_out() -> None:
    pages = [str(row.values[0]) for row in PAGES]
    assert {page: len(blocks(page)) for page in pages} == {page: 1 + (page == "packages") for page in pages}
