"""The unmodified `baponi` SDK against the Files API, over a real connection, with plain HTTP for the contents."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest
from baponi import AsyncBaponi, Baponi, ForbiddenError
from baponi.exceptions import BaponiError

from server.storage.storing import storing, thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from baponi.types import SignedUrl

    from server.storage.storing import Storing
    from service_stores import Stores

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:.*http.*:UserWarning"),  # it warns of an address without TLS
]


@pytest.fixture(scope="module")
async def of_module(tmp_path_factory: pytest.TempPathFactory, stores: Stores) -> AsyncGenerator[Storing]:
    async with storing(tmp_path_factory.mktemp("files"), stores=stores) as opened:
        yield opened


@pytest.fixture
async def stored(of_module: Storing) -> Storing:
    await of_module.clear()
    return of_module


def headers(signed: SignedUrl) -> dict[str, str]:
    return {one.name: one.value for one in signed.headers}


@pytest.mark.req("J-048", "J-042")
async def test_the_async_client_sends_lists_and_fetches(stored: Storing) -> None:
    async with AsyncBaponi("baponi", base_url=stored.service.base) as client, httpx.AsyncClient() as plain:
        up = await client.upload_url(path="out/a.txt", content_length=5, id="t1", content_type="text/plain")
        assert up.method == "PUT"
        assert (await plain.put(up.url, content=b"hello", headers=headers(up))).status_code == 200
        assert [one.path for one in await client.list_files(id="t1")] == ["out"]
        (entry,) = await client.list_files(id="t1", path="out/")
        assert (entry.path, entry.size) == ("out/a.txt", 5)
        assert entry.modified is not None
        down = await client.download_url(path=entry.path, id="t1")
        got = await plain.request(down.method, down.url, headers=headers(down))
        assert (got.status_code, got.content) == (200, b"hello")


async def test_the_plain_client_does_the_same_with_volumes(stored: Storing) -> None:
    await stored.trees.of("default").create_volume("shared")

    def use() -> tuple[bytes, list[str]]:
        with Baponi("baponi", base_url=stored.service.base) as client:
            up = client.upload_url(source="volume", id="shared", path="b.bin", content_length=3)
            assert httpx.put(up.url, content=b"\0\1\2", headers=headers(up)).is_success
            down = client.download_url(source="volume", id="shared", path="b.bin")
            listed = client.list_files(source="volume", id="shared")
            return httpx.get(down.url).content, [one.path for one in listed]

    assert await asyncio.to_thread(use) == (b"\0\1\2", ["b.bin"])


async def test_refusals_are_its_own_errors(stored: Storing) -> None:
    await stored.write(thread(), file=b"1")
    async with AsyncBaponi("bare", base_url=stored.service.base) as client:
        with pytest.raises(ForbiddenError, match="has no storage"):
            await client.list_files(id="t1")
    async with AsyncBaponi("baponi", base_url=stored.service.base) as client:
        with pytest.raises(BaponiError, match="no such thread"):
            await client.list_files(id="never")
        with pytest.raises(BaponiError, match="there is no file"):
            await client.download_url(id="t1", path="missing")
