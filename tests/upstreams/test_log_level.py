"""How much a server is asked to log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from upstreams.peers import command, upstream
from upstreams.test_subscriptions import ERAS, data, opened, watched

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.mark.req("D-056", "G-047")
@ERAS
async def test_a_configured_level_reaches_a_server_that_logs(version: str, tmp_path: Path) -> None:
    async with upstream(watched(version, tmp_path, log_level="warning")) as srv:
        told = await data(srv, "told")
    asked = told.get("level") or [one["level"] for one in told["told"] if "level" in one]
    assert asked == ("warning" if version == "2026-07-28" else ["warning"])


@ERAS
async def test_without_one_no_server_is_asked(version: str, tmp_path: Path) -> None:
    async with opened(version, tmp_path) as srv:
        told = await data(srv, "told")
    assert "level" not in told
    assert [one for one in told["told"] if "level" in one] == []


async def test_a_server_that_does_not_log_is_not_asked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with upstream(command("raw.py", "good", log, moonpool={"log_level": "debug"})) as srv:
        await srv.list_tools()
    assert "logging/setLevel" not in log.read_text(encoding="utf-8")
