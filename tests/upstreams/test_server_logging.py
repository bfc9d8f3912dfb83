"""What a server sends besides its answers, and whether an idle one is still there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.core.errors import ConfigError
from moonpool.upstreams import server_logging as remarks
from moonpool.upstreams.server_logging import LINE_COUNT_MAX
from upstreams.peers import SECRET, command, configure, raw, upstream, upstreams

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio
LOGGER = "moonpool.upstreams.server_logging"


class Signal:
    """Waits until it was called."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def __call__(self, _server_id: str) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


async def says(*frames: dict[str, Any]) -> None:
    with anyio.fail_after(30):
        async with upstream(command("curious.py", "legacy", env={"TOKEN": "${TOKEN}"})) as srv:
            for frame in frames:
                await srv.call_tool("say", frame, timeout_s=20)
            await srv.call_tool("say", {"method": "notifications/none"}, timeout_s=20)


def remark(level: str, data: Any) -> dict[str, Any]:
    return {"method": "notifications/message", "params": {"level": level, "data": data}}


@pytest.mark.req("D-056", "D-059", "G-047")
@pytest.mark.parametrize(
    ("level", "expected"), [("debug", logging.DEBUG), ("notice", logging.INFO), ("emergency", logging.WARNING)]
)
async def test_a_log_message_reaches_the_operator(level: str, expected: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    await says(remark(level, {"key": [1], "token": f"x{SECRET}"}))
    (record,) = [one for one in caplog.records if one.name == LOGGER]
    assert (record.levelno, "server 'srv' says: {\"key\":[1]" in record.getMessage()) == (expected, True)
    assert SECRET not in caplog.text


async def test_a_flood_of_messages_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    await says(*[remark("info", "line\nbreak " * 1000)] * (LINE_COUNT_MAX + 20))
    lines = [one.getMessage() for one in caplog.records if one.name == LOGGER]
    assert len(lines) == LINE_COUNT_MAX
    assert all("\n" not in line and len(line) < 1100 for line in lines)


def test_of_a_large_message_only_the_beginning_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looked: list[int] = []

    def conceal(text: str, secrets: frozenset[str]) -> str:
        del secrets
        looked.append(len(text))
        return text

    monkeypatch.setattr(remarks, "conceal", conceal)
    monkeypatch.setattr(remarks.anyio, "current_time", lambda: 1.0)
    config = configure({"srv": command("echo.py")}).servers[0]
    remarks.ServerLogging(config, frozenset).message("warning", {"a": ["b"] * 200_000, "c": {"d": "e" * 10**6}})
    assert 'server \'srv\' says: {"a":["b","b"' in caplog.text
    assert (len(looked) < 70_000, sum(looked) < 200_000) == (True, True)


@pytest.mark.req("D-053")
@pytest.mark.parametrize(("level", "expected"), [(logging.DEBUG, ["say: 1 of 2 half"]), (logging.INFO, [])])
async def test_progress_is_asked_for_when_somebody_reads_it(
    level: int, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, LOGGER)
    progress = {"method": "notifications/progress", "params": {"progress": 1, "total": 2, "message": "half"}}
    await says({**progress, "token": True})
    lines = [one.getMessage().partition("says: ")[2] for one in caplog.records if one.name == LOGGER]
    assert lines == expected


@pytest.mark.req("A-082")
async def test_progress_may_be_a_part_of_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    await says({"method": "notifications/progress", "params": {"progress": 0.5, "total": 1.25}, "token": True})
    assert "says: say: 0.5 of 1.25" in caplog.text


@pytest.mark.req("D-055", "A-065", "A-066")
async def test_an_idle_server_is_pinged() -> None:
    pinged = Signal()
    entry = command("curious.py", "legacy", moonpool={"ping_s": 1})
    with anyio.fail_after(30):
        async with upstream(entry, on_listing_changed=pinged) as srv:
            await srv.list_tools()
            await pinged.wait()


@pytest.mark.req("D-055")
async def test_a_server_is_pinged_only_where_that_is_configured(tmp_path: Path) -> None:
    pinged, log = Signal(), tmp_path / "log"
    silent, watched = raw("good", log), command("curious.py", "legacy", moonpool={"ping_s": 1})
    with anyio.fail_after(30):
        async with upstreams({"silent": silent, "watched": watched}, on_listing_changed=pinged) as found:
            for name in ("silent", "watched"):
                srv = found.get(name)
                assert srv is not None
                await srv.list_tools()
            await pinged.wait()  # as long as the other has been idle
    assert '"ping"' not in log.read_text(encoding="utf-8")


@pytest.mark.req("A-064", "A-067", "A-068")
async def test_an_idle_server_that_is_frozen_is_connected_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    noticed = anyio.Event()

    class Operator(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            noticed.set()

    monkeypatch.setattr(logging.getLogger("moonpool.upstreams.supervisor"), "handlers", [Operator()])
    entry = command("curious.py", "legacy", "--deaf-to-pings", moonpool={"ping_s": 1})
    with anyio.fail_after(30):
        async with upstream(entry) as srv:
            await srv.list_tools()
            await noticed.wait()
            assert (await srv.list_tools()).tools
    assert lines == ["server 'srv' did not answer a ping while idle and is reconnected"]


@pytest.mark.req("A-066")
@pytest.mark.parametrize("ping_s", [-1, 0.5, 100_000])
def test_a_ping_interval_that_is_excessive_is_refused(ping_s: float) -> None:
    with pytest.raises(ConfigError, match="ping_s"):
        configure({"srv": {"command": "c", "moonpool": {"ping_s": ping_s}}})
