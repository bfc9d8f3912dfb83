"""`/metrics`: what a collector gets, that it is what envelopes and `stats tokens` say, and who gets nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import threading
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from apps import fixture_server, open_app, run
from cli.console import moonpool, write_config
from commands.process import SCRIPT
from exposition import Samples, parse, value
from moonpool.cli.stats import stats
from moonpool.core.audit import JournalError
from moonpool.core.errors import ConfigError, InputError
from moonpool.features.usage.measures import measure
from moonpool.features.usage.statistics import FollowedJournal
from moonpool.net.loopback_addresses import LoopbackAddress, loopback_address
from moonpool.server.http.exposition import CONTENT_TYPE
from moonpool.server.http.figures import metrics_of_records, metrics_of_runtime
from moonpool.server.http.loopback import CONNECTIONS_MAX, HEAD_BYTES_MAX, Listener, ListenError, serving
from moonpool.server.http.metrics import MetricsApp
from moonpool.settings import Settings
from moonpool.store.journal_reading import FileJournalReader
from moonpool.store.paths import journal_path
from server.raw_client import RawClient
from tables import every_row
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.features.usage.measures import Measures
    from moonpool.server.http.metrics import TextSource

ANY = LoopbackAddress("127.0.0.1", 0)
TEXT = "# HELP x X.\n# TYPE x gauge\nx 1\n"


def test_only_this_machine_reaches_the_socket() -> None:
    listener = Listener(ANY)
    try:
        assert listener.socket.getsockname()[0] == "127.0.0.1"
    finally:
        listener.socket.close()


class Fixed:
    """A text, or an error."""

    def __init__(self, text: str | Exception = TEXT) -> None:
        self._text, self.asked = text, 0

    async def text(self) -> str:
        self.asked += 1
        if isinstance(self._text, Exception):
            raise self._text
        return self._text


@asynccontextmanager
async def served(source: TextSource, **options: float) -> AsyncGenerator[Listener]:
    listener = Listener(ANY)
    async with serving(listener, MetricsApp(source, hosts=listener.address.names), **options):
        yield listener


def pair(listener: Listener) -> tuple[str, int]:
    return listener.address.host, listener.address.port


async def exchange(listener: Listener, request: bytes) -> bytes:
    """What comes back until the end."""
    reader, writer = await asyncio.open_connection(*pair(listener))
    try:
        writer.write(request.replace(b"HOST", listener.address.netloc.encode()))
        with anyio.fail_after(10):
            with suppress(ConnectionError):
                await writer.drain()
            try:
                return await reader.read()
            except ConnectionError:
                return b""
    finally:
        writer.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n", 200, id="GET"),
        pytest.param(b"GET /metrics?a=b HTTP/1.1\r\nHost: HOST\r\n\r\n", 200, id="a query changes nothing"),
        pytest.param(b"HEAD /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n", 200, id="HEAD"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: HOST\r\n\r\n", 404, id="another path"),
        pytest.param(b"GET http://HOST/metrics HTTP/1.1\r\nHost: HOST\r\n\r\n", 404, id="a proxy's form"),
        pytest.param(b"POST /metrics HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\n\r\na=b", 405, id="POST"),
        pytest.param(b"OPTIONS /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n", 405, id="OPTIONS"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, id="a name that was rebound"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 421, id="no port"),
        pytest.param(b"GET /metrics HTTP/1.0\r\n\r\n", 421, id="no name"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n", 400, id="two names"),
        pytest.param(b"\x16\x03\x01 hello\r\n\r\n", 400, id="no HTTP"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: HOST\r\nA: " + b"a" * HEAD_BYTES_MAX, 400, id="a long head"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: HOST\r\nA: %b\r\n\r\n" % (b"a" * 65_536), 400, id="all of one"),
    ],
)
async def test_only_a_reader_on_this_machine_gets_figures(request_: bytes, status: int) -> None:
    source = Fixed()
    async with served(source) as listener:
        head, _, body = (await exchange(listener, request_)).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"connection: close" in head.lower()
    assert source.asked == (status == 200)
    assert (TEXT.encode() in body) == (status == 200 and request_.startswith(b"GET"))
    assert (f"content-type: {CONTENT_TYPE}".encode() in head) == (status == 200)


@pytest.mark.anyio
async def test_who_says_nothing_is_cut_off() -> None:
    async with served(Fixed(), request_s=0.05) as listener:
        assert await exchange(listener, b"GET /metrics HTTP/1.1\r\n") == b""
        assert await exchange(listener, b"") == b""


@pytest.mark.anyio
async def test_connections_are_bounded_and_end_with_the_server() -> None:
    async with served(Fixed()) as listener:
        silent = [await asyncio.open_connection(*pair(listener)) for _ in range(CONNECTIONS_MAX)]
        for _, writer in silent:
            writer.write(b"GET /")
        await anyio.lowlevel.checkpoint()
        assert await exchange(listener, b"GET /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n") == b""
        silent[0][1].close()
        with anyio.fail_after(10):
            while not (answer := await exchange(listener, b"GET /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n")):
                pass
        assert answer.startswith(b"HTTP/1.1 200")
    with anyio.fail_after(10):
        for reader, writer in silent[1:]:
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
    with pytest.raises(OSError):  # noqa: PT011
        await asyncio.open_connection(*pair(listener))


@pytest.mark.anyio
async def test_an_end_in_the_middle_of_an_answer_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    asked = anyio.Event()

    class Endless:
        async def text(self) -> str:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

    with anyio.fail_after(10):
        async with served(Endless()) as listener:
            reader, writer = await asyncio.open_connection(*pair(listener))
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: " + listener.address.netloc.encode() + b"\r\n\r\n")
            await asked.wait()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
    assert caplog.text == ""


@pytest.mark.anyio
@pytest.mark.parametrize("trouble", [JournalError("the disk is full of /secret/paths"), TimeoutError()])
async def test_figures_that_cannot_be_read_are_an_error_without_its_text(
    trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with served(Fixed(trouble)) as listener:
            answer = await exchange(listener, b"GET /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"secret" not in answer
    assert "cannot be read" in caplog.text


@pytest.mark.anyio
async def test_one_thread_reads_also_when_whoever_asked_has_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through, readers = threading.Event(), list[object]()

    def read(journal: FollowedJournal) -> Measures:
        readers.append(journal)
        assert through.wait(30)
        return measure([])

    monkeypatch.setattr(FollowedJournal, "measures", read)
    metrics = metrics_of_records(FileJournalReader(tmp_path / "journal"), None, records=10)
    for _ in range(5):
        with anyio.move_on_after(0.05):
            await metrics.text()
    through.set()
    with anyio.fail_after(30):
        text = await metrics.text()
    assert parse(text)
    assert len(readers) == 1


@pytest.mark.anyio
async def test_another_service_mounts_the_same_application() -> None:
    source = Fixed()
    mounted = Starlette(routes=[Route("/metrics", MetricsApp(source, hosts={"pool.example"}))])
    transport = httpx2.ASGITransport(app=mounted)
    async with httpx2.AsyncClient(transport=transport, base_url="http://pool.example") as client:
        got, posted = await client.get("/metrics"), await client.post("/metrics")
    assert (got.status_code, got.text, got.headers["content-type"]) == (200, TEXT, CONTENT_TYPE)
    assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:9464", "[::1]:0", "localhost:80", "127.8.9.1:65535"],
)
def test_loopback_addresses_are_read(address: str) -> None:
    found = loopback_address(address, what="x")
    assert found.netloc == address.replace("localhost", "127.0.0.1")


@every_row(
    "address",
    [
        *("", "9464", ":9464", "127.0.0.1", "127.0.0.1:65536", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:80 x"),
        *("0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:127.0.0.1]:1", "[::ffff:10.0.0.1]:1", "example.com:1"),
        *("2130706433:1", "0x7f000001:1", "127.1:1", "unix:/tmp/x", "[fe80::1%lo]:1"),
    ],
)
def test_every_other_address_is_refused_with_the_remedy(address: str) -> None:
    with pytest.raises(ConfigError, match=r"^metrics_listen .*127\.0\.0\.1:9464"):
        loopback_address(address, what="metrics_listen")


def test_a_port_that_is_taken_stops_the_start_with_one_sentence(tmp_path: Path) -> None:
    taken = Listener(ANY)
    where = taken.address.netloc
    with pytest.raises(ListenError, match=r"in use.*port 0 for one that is free"):
        Listener(taken.address)
    ended = moonpool(tmp_path, "mcp", "--metrics-listen", where)
    assert where in ended.sentence
    assert "in use" in ended.sentence
    with pytest.raises(ListenError, match="in use"):
        stats.main(["--listen", where], standalone_mode=False)
    taken.close()


def test_settings_and_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"metrics_listen is '0\.0\.0\.0:1', which other machines may reach"):
        Settings.load({"MOONPOOL_METRICS_LISTEN": "0.0.0.0:1"})
    with pytest.raises(ConfigError, match="--listen must be"):
        stats.main(["--listen", ""], standalone_mode=False)
    with pytest.raises(InputError, match="--json"):
        stats.main(["--listen", "127.0.0.1:0", "--json"], standalone_mode=False)


def told(client: RawClient) -> str:
    """The address that the server told on its stderr."""
    wait_until(lambda: "/metrics\n" in client.said(), within_s=40)
    return re.findall(r"moonpool: metrics at (http://127\.0\.0\.1:\d+/metrics)\n", client.said())[0]


def scraped(address: str, name: str, **labels: str) -> Samples:
    """What a collector gets as soon as this sample is there and not 0."""
    found: list[Samples] = []

    def there() -> bool:
        answer = httpx2.get(address)
        assert answer.headers["content-type"] == CONTENT_TYPE
        found[:] = [parse(answer.text)]
        return found[0].get((name, frozenset(labels.items())), 0) != 0

    wait_until(there, within_s=40)
    return found[0]


@pytest.mark.req("H-077", "H-083")
def test_envelope_address_and_stats_tell_the_same_figures(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"full": fixture_server("echo.py")})
    command = [str(SCRIPT), "mcp", "--config", str(config), "--approve", "deny", "--metrics-listen", "127.0.0.1:0"]
    with RawClient(command=command) as client:
        address = told(client)
        scraped(address, "moonpool_tools")  # the tools are listed: the handshake need not wait for them
        client.handshake()
        client.call("tools/list")
        client.tool("search_tools", queries=["echo a text", "sleep"])
        envelope = client.tool("execute_code", code="result = 1")["_meta"]["moonpool/envelope"]["metrics"]["tokens"]
        samples = scraped(address, "moonpool_executions", of="open")
        client.close()
    now = json.loads(moonpool(tmp_path, "stats", "tokens", "--config", config, "--json").stdout)["configuration"]

    assert set(envelope["by_kind"]) == {"manifest", "own_tools", "search"}
    for of in ("configuration", "open"):
        unasked = [value(samples, "moonpool_tokens_shown", of=of, kind=kind) for kind in ("manifest", "own_tools")]
        assert unasked == [envelope["manifest"], now["own_tools"]]
        assert value(samples, "moonpool_tokens_upfront", of=of) == envelope["upfront"] == now["upfront"]
    assert envelope["manifest"] == now["manifest"]
    assert envelope["by_kind"]["own_tools"] == now["own_tools"]
    assert value(samples, "moonpool_tokens_saved", of="configuration") == now["saved"]
    assert value(samples, "moonpool_tokens_saved", of="open") == envelope["saved"]
    assert value(samples, "moonpool_tokens_shown", of="open", kind="search") == envelope["by_kind"]["search"]
    assert value(samples, "moonpool_tokens_per_task", of="open") == envelope["on_demand_per_task"]
    assert value(samples, "moonpool_tools") == envelope["tools"] == now["tools"]
    assert value(samples, "moonpool_executions", of="open") == value(samples, "moonpool_connections", of="open") == 1
    assert value(samples, "moonpool_sandboxes", state="alive") >= 0
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(address)


@pytest.mark.anyio
async def test_the_sandbox_cannot_reach_it() -> None:
    async with open_app() as app:
        metrics = metrics_of_runtime(app.runtime, FileJournalReader(journal_path(app.data)), fresh_s=0)
        async with served(metrics) as listener:
            host, port = pair(listener)
            code = f"""
import socket
result = []
for address in (({host!r}, {port}), ("localhost", {port}), ("::1", {port})):
    try:
        socket.create_connection(address, timeout=2).close()
        result.append("connected")
    except OSError as error:
        result.append("refused")
"""
            outcome = await run(app, code)
            assert outcome.data == ["refused"] * 3, outcome.error
            answer = await exchange(listener, b"GET /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n")
    samples = parse(answer.partition(b"\r\n\r\n")[2].decode())
    assert value(samples, "moonpool_tools") == 0
    assert value(samples, "moonpool_span_seconds_count", span="execution") >= 1


def test_what_children_inherit_is_not_the_socket() -> None:
    listener = Listener(ANY)
    assert not listener.socket.get_inheritable()
    assert socket.socket(fileno=listener.socket.detach()).close() is None
