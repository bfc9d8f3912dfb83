"""`moonpool.connect` where the network, the service or the application misbehaves."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest

import moonpool
from apps import fixture_server
from sdk.service import ServiceThread
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.anyio
KEY = "sk-test-0123456789"
ECHO = {"echo": fixture_server("echo.py", ask=["*"])}
CALL = "from servers.echo import text\nr = await text(text='hi')\nr.data if r.ok else r.error['message']"


class Wire:
    """A network between client and service that can be cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.cut_answer_to = b""  # cut when a request holds these bytes, once it has passed
        self.is_down = False
        self.connections = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.is_down:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, back}
        for one in (self._pass(reader, back, watch=True), self._pass(there, writer)):
            task = asyncio.ensure_future(one)
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, watch: bool = False) -> None:
        with suppress(OSError):
            while data := await reader.read(64 * 1024):
                writer.write(data)
                await writer.drain()
                if watch and self.cut_answer_to and self.cut_answer_to in data:
                    self.cut_answer_to = b""
                    self.cut()
        writer.close()

    def cut(self) -> None:
        """Break all connections off."""
        writers, self._writers = self._writers, set()
        for writer in writers:
            writer.transport.abort()

    async def end(self) -> None:
        self.cut()
        for task in tuple(self._pipes):
            task.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)


@asynccontextmanager
async def wire_to(service: ServiceThread) -> AsyncGenerator[tuple[Wire, str]]:
    wire = Wire(int(service.url.rpartition(":")[2]))
    server = await asyncio.start_server(wire.accept, "127.0.0.1", 0)
    try:
        yield wire, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        await wire.end()
        server.close()


async def test_a_stream_that_is_cut_is_taken_up_where_it_broke(served: ServiceThread) -> None:
    async with (
        served.organisation() as ours,
        wire_to(served) as (wire, url),
        moonpool.connect(url, ours.key) as service,
        service.session() as s,
    ):
        code = "import time\nfor n in range(30):\n    print(f'n{n}', flush=True)\n    time.sleep(0.01)\n'done'"
        said, cuts = "", 0
        with anyio.fail_after(60):
            async for event in s.stream(code):
                match event:
                    case moonpool.Output():
                        said += event.text
                        if cuts < 3:
                            cuts += 1
                            wire.cut()
                    case moonpool.Result():
                        assert event.check().data == "done"
                        assert event.stdout == said
                    case _:
                        pytest.fail(str(event))
        assert said == "".join(f"n{n}\n" for n in range(30))
        assert wire.connections > 1


async def test_code_runs_once_where_the_answer_to_it_is_lost(served: ServiceThread) -> None:
    async with (
        served.organisation() as ours,
        wire_to(served) as (wire, url),
        moonpool.connect(url, ours.key) as service,
        service.session() as s,
    ):
        await s.run("count = 0")
        wire.cut_answer_to = b"count += 1"
        with anyio.fail_after(60):
            assert (await s.run("count += 1\ncount")).check().data == 1
        assert wire.cut_answer_to == b""
        assert (await s.run("count")).data == 1


async def test_a_service_that_cannot_be_reached_is_one_error_soon(
    served: ServiceThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moonpool.sdk.remote.lines.AWAY_S", 0.5)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with moonpool.connect(f"http://127.0.0.1:{unused.getsockname()[1]}", KEY) as service:
            with (
                anyio.fail_after(30),
                pytest.raises(moonpool.ServiceUnavailableError, match="cannot be reached") as raised,
            ):
                await service.run("1")
            assert (raised.value.code, raised.value.retryable) == ("service_unreachable", True)
    async with served.organisation() as ours, wire_to(served) as (wire, url):
        service = moonpool.connect(url, ours.key)
        s = service.session()
        await s.start()
        stream = s.stream("print('on', flush=True)\nimport time; time.sleep(600)")
        assert isinstance(await anext(stream), moonpool.Output)
        wire.is_down = True
        wire.cut()
        with anyio.fail_after(30), pytest.raises(moonpool.ServiceError):
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        with anyio.fail_after(60), pytest.raises(moonpool.ServiceError):
            await s.files.list()
        with anyio.fail_after(60):
            await s.close()
        with pytest.raises(moonpool.InputError, match="closed"):
            await s.run("1")


async def test_keys_are_in_no_text(served: ServiceThread, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with served.organisation() as ours:
        for key in (ours.key, ours.powerless, KEY):
            service = moonpool.connect(served.url, key, approver=ours.person)
            assert key not in repr(service) + repr(vars(service)) + str(service)
            said = ""
            try:
                async with service.session() as s:
                    said += repr(s) + str((await s.run("1")).data)
            except moonpool.MoonpoolError as error:
                said += repr(error) + str(error)
                assert key != ours.key
            assert key not in said
        with pytest.raises(moonpool.ServiceError) as raised:
            await moonpool.connect(served.url, KEY).run("1")
        assert raised.value.code == "authentication_failed"
        assert "refuses this key (401); use one that is valid there" in str(raised.value)
        heard = "\n".join([*served.seen, *(record.getMessage() for record in caplog.records)])
        assert f"{served.url}/v1/sessions" in heard
        assert not [key for key in (*vars(ours).values(), KEY) if key in heard]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"url": "http://moonpool.example.com"}, "another machine"),
        ({"url": "http://127.0.0.1.example.com"}, "another machine"),
        ({"url": "ftp://moonpool.example.com"}, "no address of a service"),
        ({"url": "https://"}, "no address of a service"),
        ({"url": "https://moonpool.example.com/mcp"}, "leave out /mcp"),
        ({"url": "https://[::1"}, "cannot be read"),
        ({"url": "https://user:secret@moonpool.example.com"}, "leave out the rest"),
        ({"url": "https://moonpool.example.com/?key=secret"}, "leave out the rest"),
        ({"url": 5}, "must be a string"),
        ({"key": ""}, "8 or more visible"),
        ({"key": "sk-with space"}, "8 or more visible"),
        ({"key": "sk-line\r\nX-Injected: 1"}, "8 or more visible"),
        ({"key": 5}, "must be a string"),
        ({"approver": KEY}, "another credential"),
        ({"allow_http": "yes"}, "True or False"),
    ],
)
async def test_what_cannot_be_connected_to_is_one_clear_error(given: dict[str, Any], problem: str) -> None:
    for connect in (moonpool.connect, moonpool.sync.connect):
        with pytest.raises(moonpool.InputError, match=problem) as raised:
            connect(**{"url": "https://moonpool.example.com", "key": KEY, **given})
        assert "secret" not in str(raised.value)
        assert "Injected" not in str(raised.value)


async def test_what_a_service_has_of_its_own_is_refused_here() -> None:
    service = moonpool.connect("https://moonpool.example.com", KEY)
    for options, problem in (
        ({"approve": lambda _: True}, "approver=ANOTHER_KEY"),
        ({"approve": "queue"}, "approve must be a function"),
        ({"files": 5}, "files must map"),
        ({"limits": 5}, "limits must be"),
    ):
        with pytest.raises(moonpool.InputError, match=problem):
            service.session(**options)  # pyright: ignore[reportArgumentType]
    with pytest.raises(moonpool.InputError, match="approval_expiry_s is the service's own"):
        await service.session(limits=moonpool.Limits(approval_expiry_s=1)).start()
    with pytest.raises(TypeError):
        service.session(servers={})  # pyright: ignore[reportCallIssue]


@pytest.mark.slow
async def test_more_than_the_operator_allows_is_refused(served: ServiceThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONPOOL_NETWORK", "*.example.com")
    async with served.organisation(packages=["small*"]) as ours:
        service = moonpool.connect(served.url, ours.key)
        for options, problem in (
            ({"limits": moonpool.Limits(memory_bytes=2**50)}, "memory_bytes is .* allows at most"),
            ({"limits": moonpool.Limits(tool_calls=10**9)}, "tool_calls is .* allows at most"),
            ({"limits": moonpool.Limits(processes=0)}, "must be at least 1|above 0"),
            ({"network": ["elsewhere.example.org"]}, "not among the domains"),
            ({"packages": "any"}, "does not let sessions install"),
            ({"packages": ["s*"]}, "does not let sessions install"),
            ({"environment": "../base"}, "there is no environment"),
        ):
            with pytest.raises(moonpool.MoonpoolError, match=problem):
                await service.session(**options).start()
        small = moonpool.Limits(memory_bytes=300 * 1024**2, timeout_s=0.5, tool_calls=3, stdout_bytes=100)
        async with service.session(limits=small, network=["a.example.com"], packages=["small"]) as s:
            assert (await s.run("while True: pass")).error.type == "Timeout"
            hungry = await s.run("x = bytearray(600 * 2**20)", timeout=30)
            assert hungry.error is not None
            with pytest.raises(moonpool.PackageError, match="are allowed"):
                await s.install("smaller")


async def test_without_a_credential_for_it_nobody_approves_and_a_no_is_always_possible(served: ServiceThread) -> None:
    async with (
        served.organisation(servers=ECHO) as ours,
        moonpool.connect(served.url, ours.key) as service,
        service.session() as s,
    ):
        async for event in s.stream(CALL):
            if isinstance(event, moonpool.ApprovalRequest):
                with pytest.raises(moonpool.ApprovalAnswerError, match="nobody approves the calls of their own code"):
                    await event.approve(by="alice")
                await event.deny("not here")
        assert "not here" in event.check().data
        assert "nobody answers" in (await s.run(CALL)).check().data


async def test_closing_ends_what_runs_waits_and_is_asked(served: ServiceThread) -> None:
    async with (
        served.organisation(servers=ECHO) as ours,
        moonpool.connect(served.url, ours.key, approver=ours.other_key) as service,
    ):
        s = service.session(checkpoints=True)
        await s.start()
        served.seen.clear()
        running = asyncio.ensure_future(s.run("import time; time.sleep(600)"))
        waiting = [asyncio.ensure_future(one) for one in (s.run("1"), s.undo(), s.files.read("f"))]
        stream = s.stream("1")
        reading = asyncio.ensure_future(anext(stream))
        async with asyncio.timeout(60):
            await until(lambda: served.paths("/executions") >= 3 and served.paths("/undo") and served.paths("/files"))
            await s.close()
            ended = await asyncio.gather(running, *waiting, reading, return_exceptions=True)
        for outcome in ended:
            assert isinstance(outcome, moonpool.MoonpoolError | moonpool.Result | StopAsyncIteration), outcome
            if isinstance(outcome, moonpool.Result):
                assert outcome.error is not None
                assert outcome.error.type == "Cancelled"


@pytest.mark.slow
async def test_an_undo_is_given_up_with_its_caller(served: ServiceThread) -> None:
    async with (
        served.organisation() as ours,
        moonpool.connect(served.url, ours.key) as service,
        service.session(checkpoints=True) as s,
    ):
        await s.run("x = 1")
        stream = s.stream("x = 2\nprint('on', flush=True)\nimport time; time.sleep(600)")
        await anext(stream)
        served.seen.clear()
        waiting = asyncio.ensure_future(s.undo())
        await until(lambda: served.paths("/undo"))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        (session,) = served.registry.all_of(served.callers[ours.key])
        await until(lambda: session._users == 1)  # the stream; the service has heard that nobody waits for the undo
        with anyio.fail_after(60):
            await stream.aclose()
            assert (await s.run("x")).data == 2


async def test_code_whose_end_overtakes_it_does_not_run(served: ServiceThread) -> None:
    async with (
        served.organisation() as ours,
        httpx2.AsyncClient(
            base_url=f"{served.url}/v1/", headers={"authorization": f"Bearer {ours.key}"}, verify=False
        ) as http,
    ):
        session = (await http.post("sessions", json={})).json()["id"]
        assert (await http.delete(f"sessions/{session}/executions/{'a' * 32}")).status_code == 404
        late = await http.post(f"sessions/{session}/executions", json={"code": "1", "id": "a" * 32})
        assert late.json()["error"]["code"] == "execution_unwanted"


async def test_a_cancelled_call_ends_its_code_at_the_service(served: ServiceThread) -> None:
    async with (
        served.organisation() as ours,
        moonpool.connect(served.url, ours.key) as service,
        service.session() as s,
    ):
        await s.run("x = 1")
        stream = s.stream("x = 2\nprint('on', flush=True)\nimport time; time.sleep(600)")
        await anext(stream)
        queued = asyncio.ensure_future(s.run("x = 3"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(stream)
        with anyio.fail_after(60):
            await queued
            assert (await s.run("x")).data == 3
            assert s.usage.executions == 4


def test_the_same_without_an_event_loop(served: ServiceThread) -> None:
    async def scenario() -> None:
        async with served.organisation(servers=ECHO) as ours:
            await asyncio.to_thread(plain, ours)

    def plain(ours: Any) -> None:
        with moonpool.sync.connect(served.url, ours.key, approver=ours.other_key) as service:
            with service.session(approve=lambda request: request.tool == "text", files={"f": "1"}) as s:
                assert s.run(CALL).check().data == "hi"
                assert s.files.read("f") == b"1"
                assert [type(event).__name__ for event in s.stream("print(1)")] == ["Output", "Result"]
            made = service.run("open('made', 'w').write('x'); None")
            assert made.files[0].path is not None
            left = service.session()
            left.start()
        assert left.is_closed

    asyncio.run(scenario())


@pytest.mark.slow
async def test_files_pass_in_pieces(served: ServiceThread, tmp_path: Any) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 64 * 1024)  # 16 MiB
    async with (
        served.organisation() as ours,
        moonpool.connect(served.url, ours.key) as service,
        service.session() as s,
    ):
        await s.files.put(large, "there")
        back = await s.files.get("there", tmp_path / "back")
        assert back.read_bytes() == large.read_bytes()
        for path in ("nowhere", "../etc/passwd", "a\0b", "/etc/passwd", "x" * 5000):
            with pytest.raises(moonpool.FileTransferError):
                await s.files.read(path)
        for name in ("ä b?c&d=%2F#e", "new\nline"):
            await s.files.write(name, b"odd")
            assert await s.files.read(name) == b"odd"
