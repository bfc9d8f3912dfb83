"""Callbacks of an application for changed tools, resources and prompts."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.bootstrap.tools import assemble_tools
from moonpool.core.errors import InputError
from moonpool.settings import Settings
from upstreams.peers import configure
from upstreams.test_subscriptions import watched

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.tools.changes import ChangeNotice, Kind

pytestmark = pytest.mark.anyio
VERSIONS = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])


class Heard:
    """What came, and a way to wait for more."""

    def __init__(self) -> None:
        self.news: list[ChangeNotice] = []
        self._event = anyio.Event()

    def __call__(self, news: ChangeNotice) -> None:
        self.news.append(news)
        self._event.set()

    async def wait(self) -> ChangeNotice:
        await self._event.wait()
        return self.news[-1]


async def call(box: ToolRegistry, tool: str, **arguments: Any) -> Any:
    upstream = box.get("srv")
    assert upstream is not None
    return (await upstream.call_tool(tool, arguments, timeout_s=20)).get("structuredContent")


async def ready(box: ToolRegistry) -> None:
    await box.snapshot()
    while box.get("srv").protocol_version == "2026-07-28" and not (await call(box, "told"))["listening"]:  # type: ignore[union-attr]
        await anyio.lowlevel.checkpoint()


def entry(version: str, folder: Path) -> Any:
    return configure({"srv": watched(version, folder)})


@pytest.mark.req("D-058")
@VERSIONS
@pytest.mark.parametrize(
    ("kind", "name", "member"), [("tools", "new", "name"), ("resources", "w://b", "uri"), ("prompts", "q", "name")]
)
async def test_a_changed_list_comes_once_and_whole(
    version: str, kind: Kind, name: str, member: str, tmp_path: Path
) -> None:
    heard, others = Heard(), Heard()
    with anyio.fail_after(40):
        async with assemble_tools(
            Settings(data_dir=tmp_path / "data"), config=entry(version, tmp_path), environ=dict(os.environ)
        ) as box:
            await ready(box)
            box.changes.follow(kind, heard)
            box.changes.follow("tools" if kind != "tools" else "prompts", others)
            await call(box, "list_change", kind=kind, name=name)
            news = await heard.wait()
    assert (news.server_id, news.kind, len(heard.news), others.news) == ("srv", kind, 1, [])
    assert name in [item[member] for item in news.items]


@pytest.mark.req("D-014", "D-058")
@VERSIONS
async def test_a_resource_that_is_subscribed_to_is_told_until_the_end(version: str, tmp_path: Path) -> None:
    heard, ended = Heard(), Heard()
    with anyio.fail_after(40):
        async with assemble_tools(
            Settings(data_dir=tmp_path / "data"), config=entry(version, tmp_path), environ=dict(os.environ)
        ) as box:
            await ready(box)
            box.changes.follow("resource", heard)
            box.changes.follow("resource", ended)()
            await box.changes.subscribe("srv", "w://a")
            await call(box, "change", uri="w://a", text="new")
            news = await heard.wait()
            await box.changes.unsubscribe("srv", "w://a")
            with pytest.raises(InputError, match="no server 'other'"):
                await box.changes.subscribe("other", "w://a")
    assert (news.kind, news.uri, ended.news) == ("resource", "w://a", [])


async def test_a_callback_that_fails_disturbs_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(news: ChangeNotice) -> None:
        raise ValueError(news.kind)

    heard = Heard()
    with anyio.fail_after(40):
        async with assemble_tools(
            Settings(data_dir=tmp_path / "data"), config=entry("2025-11-25", tmp_path), environ=dict(os.environ)
        ) as box:
            await box.snapshot()
            box.changes.follow("prompts", broken)
            box.changes.follow("prompts", heard)
            await call(box, "list_change", kind="prompts", name="q")
            assert json.dumps(list((await heard.wait()).items)) == '[{"name": "p"}, {"name": "q"}]'
    assert "ValueError" in caplog.text
