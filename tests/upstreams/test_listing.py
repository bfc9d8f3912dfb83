"""`tools/list`: all pages, raw tools, broken tools, endless pages, and news that the list changed."""

from __future__ import annotations

import sys

import anyio
import pytest

from moonpool.core.phrases import ends_of, said
from moonpool.upstreams import UpstreamError
from moonpool.upstreams.connection import INSTRUCTIONS_CHARS_MAX
from moonpool.upstreams.cursors import Cursors
from moonpool.upstreams.listing import LISTING_BYTES_MAX, ListingPages
from upstreams.peers import HttpServer, command, raw, upstream

pytestmark = pytest.mark.anyio


@pytest.mark.req("D-001", "D-049", "D-050", "D-051", "P-032")
async def test_all_pages_are_read_with_their_cursors_unchanged() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("pages")) as srv:
            listing = await srv.list_tools()
    sizes = ((0, 1), (1, 7), (2, 0), (3, 3))
    assert [tool.name for tool in listing.tools] == [f"tool{at}.{n}" for at, size in sizes for n in range(size)]


@pytest.mark.req("D-052", "D-063")
@pytest.mark.parametrize(
    ("mode", "sentence"), [("repeated-cursor", "repeats a cursor"), ("endless-pages", "more than 1000 pages")]
)
async def test_a_listing_that_never_ends_is_an_error(mode: str, sentence: str) -> None:
    with anyio.fail_after(60):
        async with upstream(raw(mode)) as srv:
            with pytest.raises(UpstreamError, match=sentence):
                await srv.list_tools()


@pytest.mark.req("D-063")
async def test_one_broken_tool_never_loses_the_others() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("broken-tool")) as srv:
            listing = await srv.list_tools()
    assert [tool.name for tool in listing.tools] == ["bare", "odd", "good"]
    assert list(listing.tools[2].raw) == ["inputSchema", "x-vendor", "name", "description"]
    assert listing.tools[2].raw["x-vendor"] == {"kept": None}
    assert len(listing.warnings) == 8


async def test_what_the_server_says_about_itself_is_kept() -> None:
    with anyio.fail_after(30):
        async with upstream(command("echo.py")) as srv:
            listing = await srv.list_tools()
        async with upstream(command("echo.py", moonpool={"instructions": False})) as srv:
            silent = await srv.list_tools()
    assert (listing.name, listing.version, listing.instructions) == ("echo", "1.0", "Echoes.")
    assert silent.instructions == ""


@pytest.mark.req("D-003")
@pytest.mark.parametrize(
    ("path", "kind", "era"),
    [
        pytest.param("", "stdio", None, id="stdio 2026-07-28"),
        pytest.param("", "stdio", "2025-11-25", id="stdio 2025-11-25"),
        pytest.param("--sdk", "stdio", None, id="stdio of the SDK 2026-07-28", marks=pytest.mark.slow),
        pytest.param("--sdk", "stdio", "2025-11-25", id="stdio of the SDK 2025-11-25", marks=pytest.mark.slow),
        pytest.param("/mcp", "http", None, id="http 2026-07-28"),
        pytest.param("/sse", "sse", "2025-11-25", id="legacy sse 2025-11-25"),
    ],
)
async def test_a_changed_listing_is_told(request: pytest.FixtureRequest, path: str, kind: str, era: str | None) -> None:
    if kind == "stdio":
        entry = command("echo.py", path)
    else:
        server: HttpServer = request.getfixturevalue("echo_http")
        entry = {"url": server.url(path), "type": kind}
    name = f"new_{kind}"
    told = anyio.Event()
    options = {"known_versions": {"srv": era}} if era else {}
    with anyio.fail_after(30):
        async with upstream(entry, on_listing_changed=lambda _: told.set(), **options) as srv:
            before = await srv.list_tools()
            while not told.is_set():  # the subscription may be acknowledged after the first change
                await srv.call_tool("list_change", {"name": name}, timeout_s=10)
                with anyio.move_on_after(0.5):
                    await told.wait()
            after = await srv.list_tools()
    assert name not in {tool.name for tool in before.tools}
    assert name in {tool.name for tool in after.tools}


async def test_a_restarted_server_is_listed_again() -> None:
    told: list[str] = []
    with anyio.fail_after(30):
        async with upstream(command("echo.py"), on_listing_changed=told.append) as srv:
            with pytest.raises(UpstreamError):
                await srv.call_tool("crash", {}, timeout_s=20)
            assert told == []
            await srv.call_tool("echo", {}, timeout_s=20)
    assert told == ["srv"]


TALKS_OF_ITSELF = """
import json, sys
about = {"protocolVersion": "2025-11-25", "capabilities": {}, "instructions": "a" * 10**6,
         "serverInfo": {"name": "b" * 10**6, "version": "c" * 10**6}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = about if asked["method"] == "initialize" else {"tools": []}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_what_a_server_says_of_itself_is_cut() -> None:
    entry = {"command": sys.executable, "args": ["-c", TALKS_OF_ITSELF]}
    with anyio.fail_after(30):
        async with upstream(entry, known_versions={"srv": "2025-11-25"}) as srv:
            listing = await srv.list_tools()
    assert (len(listing.name), len(listing.version), len(listing.instructions)) == (1000, 1000, INSTRUCTIONS_CHARS_MAX)


def test_a_tool_list_that_is_none_is_refused() -> None:
    with pytest.raises(UpstreamError, match='without a list of "tools"'):
        ListingPages("srv").add({"tools": {}})


@pytest.mark.req("D-063")
def test_too_many_tools_are_refused() -> None:
    with pytest.raises(UpstreamError, match="more than 10000 tools"):
        ListingPages("srv").add({"tools": [{"name": str(number)} for number in range(10_001)]})


@pytest.mark.req("D-063")
def test_all_pages_of_a_tool_list_together_are_bounded() -> None:
    pages, text = ListingPages("srv"), "x" * (LISTING_BYTES_MAX // 4)
    for number in range(3):
        pages.add({"tools": [{"name": str(number), "description": text}], "nextCursor": str(number)})
    with pytest.raises(UpstreamError, match="more than 16 MiB in all"):
        pages.add({"tools": [{"name": "last", "description": text}]})


@pytest.mark.req("D-063")
def test_all_pages_of_another_list_together_are_bounded_like_one_message() -> None:
    cursors = Cursors("srv", "resources/list", bytes_max=1024**2)
    assert cursors.next({"resources": ["x" * 700_000], "nextCursor": "a"}) == "a"
    with pytest.raises(UpstreamError, match="resources/list with more than 1 MiB in all"):
        cursors.next({"resources": ["x" * 700_000], "nextCursor": "b"})


def test_of_what_a_server_says_only_the_ends_are_looked_at() -> None:
    """Character by character 60 MB would stop the loop for seconds."""
    assert len(ends_of("x" * 10**6)) < 70_000
    assert said(f"first {'x ' * 10**6}last", 20) == "first x x  … x x x last"
    assert ends_of("short") == "short"


def test_what_a_server_says_is_capped_and_printable() -> None:
    assert said("a\x1b[31m\nb") == "a [31m b"
    assert said("a" + "\u2800\u3164\ufe0f" * 50 + "b") == "a b"
    assert len(said("x" * 10_000)) < 2010
