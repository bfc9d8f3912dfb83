"""`/v1/blobs/{token}`: whole files and parts, uploads whole or not at all, and who has lost the right to either."""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.bootstrap.database import open_service_data
from moonpool.bootstrap.stored_files import StorageOfService
from moonpool.bootstrap.stores import FileStores
from moonpool.features.keys.model import KeySpec
from moonpool.features.storage.memory import trees_in_memory
from moonpool.server.http import paced_bodies
from moonpool.server.http.storage import transfers
from moonpool.settings import Settings
from server.services import serving
from server.storage.storing import THREAD, WITH_STORAGE, bearer, sent_with, storing, thread
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from moonpool.features.sandbox_configurations.model import SandboxConfiguration
    from moonpool.server.http.callers import HttpCaller
    from server.storage.storing import Storing
    from service_stores import Stores

pytestmark = pytest.mark.anyio
CONTENT = bytes(range(256)) * 40
REFUSED = (403, "forbidden")


@pytest.fixture(scope="module")
async def of_module(tmp_path_factory: pytest.TempPathFactory, stores: Stores) -> AsyncGenerator[Storing]:
    async with storing(tmp_path_factory.mktemp("files"), stores=stores) as opened:
        yield opened


@pytest.fixture
async def stored(of_module: Storing) -> Storing:
    await of_module.clear()
    return of_module


@pytest.mark.req("J-042", "J-041")
async def test_a_file_goes_up_and_comes_down_by_url_alone(stored: Storing) -> None:
    signed = await stored.upload_url("out/data.bin", len(CONTENT), content_type="image/png")
    assert (signed["method"], signed["headers"]) == ("PUT", [{"name": "Content-Type", "value": "image/png"}])
    assert signed["url"].startswith(f"{stored.service.base}/v1/blobs/")
    assert signed["expires_at"].endswith("Z")
    sent = await stored.service.http.put(signed["url"], content=CONTENT, headers=sent_with(signed))
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert (sent.status_code, sent.json()) == (
        200, {"path": "out/data.bin", "size": len(CONTENT), "sha256": digest},
    )  # fmt: skip
    down = await stored.download_url("out/data.bin")
    assert (down["method"], down["headers"]) == ("GET", [])
    got = await stored.service.http.get(down["url"])
    assert (got.status_code, got.content, got.headers["etag"]) == (200, CONTENT, f'"{digest}"')
    assert got.headers["content-disposition"].startswith('attachment; filename="data.bin"')
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-security-policy"].startswith("sandbox")
    assert "no-store" in got.headers["cache-control"]
    head = await stored.service.http.head(down["url"])
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(CONTENT)))


async def test_an_empty_file_and_parts_of_a_file(stored: Storing) -> None:
    assert (await stored.put("empty", b"")).status_code == 200
    await stored.put("full", CONTENT)
    http, url = stored.service.http, (await stored.download_url("full"))["url"]
    assert (await http.get((await stored.download_url("empty"))["url"])).content == b""
    etag = (await http.head(url)).headers["etag"]
    for header, start, end in (("bytes=5-9", 5, 10), ("bytes=-7", len(CONTENT) - 7, len(CONTENT))):
        part = await http.get(url, headers={"range": header, "if-range": etag})
        assert (part.status_code, part.content) == (206, CONTENT[start:end])
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{len(CONTENT)}"
    changed = await http.get(url, headers={"range": "bytes=5-9", "if-range": '"other"'})
    assert (changed.status_code, changed.content) == (200, CONTENT)
    behind = await http.get(url, headers={"range": "bytes=999999-"})
    assert (behind.status_code, behind.headers["content-range"]) == (416, f"bytes */{len(CONTENT)}")
    assert behind.json()["error"] == "range_not_satisfiable"


async def test_a_url_is_for_one_method_and_a_time(stored: Storing) -> None:
    await stored.put("file", b"12")
    http = stored.service.http
    down, up = await stored.download_url("file"), await stored.upload_url("file", 1)
    answers = [
        await http.put(down["url"], content=b"1"),
        await http.get(up["url"]),
        await http.head(up["url"]),
        await http.get(f"{stored.service.base}/v1/blobs/nothing"),
        await http.get(down["url"][:-1] + ("A" if down["url"][-1] != "A" else "B")),
        await http.get(down["url"], headers=bearer("key"), params={"x": "1"}),
    ]
    assert [one.status_code for one in answers] == [403, 403, 403, 403, 403, 200]
    assert len({one.text for one in answers[:5] if one.text}) == 1
    method = await http.post(down["url"])
    assert (method.status_code, method.json()["error"]) == (405, "method_not_allowed")
    assert (await http.get(down["url"], headers={"host": "evil"})).status_code == 421
    own = stored.trees.of("default")
    await own.delete(thread())
    assert (await http.get(down["url"])).status_code == 404


async def test_an_expired_url_is_refused(tmp_path: Path) -> None:
    async with storing(tmp_path, signed_url_s=1.0) as stored:
        await stored.put("file", b"12")
        url = (await stored.download_url("file"))["url"]
        with anyio.fail_after(30):
            while (answer := await stored.service.http.get(url)).status_code == 200:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        assert (answer.status_code, answer.json()["error"]) == REFUSED


async def test_what_comes_must_be_what_was_signed(stored: Storing) -> None:
    http = stored.service.http
    signed = await stored.upload_url("file", 5)
    headers = sent_with(signed)

    async def in_chunks() -> AsyncIterator[bytes]:
        yield b"12345"

    refusals = [
        (await http.put(signed["url"], content=b"1234", headers=headers), 400),
        (await http.put(signed["url"], content=b"123456", headers=headers), 400),
        (await http.put(signed["url"], content=in_chunks(), headers=headers), 411),
        (await http.put(signed["url"], content=b"12345", headers={"content-type": "text/html"}), 400),
        (await http.put(signed["url"], content=b"12345", headers={**headers, "content-encoding": "gzip"}), 415),
    ]
    assert [answer.status_code for answer, _ in refusals] == [status for _, status in refusals]
    assert (await stored.post("files/list", THREAD)).status_code == 404
    assert (await http.put(signed["url"], content=b"12345", headers=headers)).status_code == 200
    assert (await http.put(signed["url"], content=b"54321", headers=headers)).status_code == 200  # until it expires
    assert (await http.get((await stored.download_url("file"))["url"])).content == b"54321"


async def test_a_folder_made_meanwhile_is_not_replaced(stored: Storing) -> None:
    http = stored.service.http
    signed = await stored.upload_url("place", 5)
    await stored.write(thread(), place__inner=b"1")
    taken = await http.put(signed["url"], content=b"12345", headers=sent_with(signed))
    assert (taken.status_code, taken.json()["error"]) == (409, "conflict")


async def test_a_full_store_says_so(tmp_path: Path) -> None:
    async with storing(tmp_path, storage_bytes_max=3) as stored:
        full = await stored.put("large", b"12345")
    assert (full.status_code, full.json()["error"]) == (413, "payload_too_large")


async def connected(stored: Storing, head: str, body: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = stored.service.base.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + body)
    await writer.drain()
    return reader, writer


def put_head(stored: Storing, signed: dict[str, Any], size: int) -> str:
    path = signed["url"].removeprefix(stored.service.base)
    return (
        f"PUT {path} HTTP/1.1\r\nhost: {stored.service.base[7:]}\r\ncontent-length: {size}\r\n"
        "content-type: application/octet-stream\r\n\r\n"
    )


async def test_an_upload_that_is_cut_leaves_nothing_and_is_on_record(stored: Storing) -> None:
    signed = await stored.upload_url("file", 1000)
    _, writer = await connected(stored, put_head(stored, signed, 1000), b"x" * 400)
    await until(lambda: stored.service.service.organisations.use[2]("default"))
    writer.close()
    await until(lambda: not stored.service.service.organisations.use[2]("default"))
    assert (await stored.post("files/list", THREAD)).status_code == 404
    (record,) = await stored.recorded()
    assert (record["action"], record["digest"], record["error_type"]) == ("put", "", "transfer_failed")
    assert record["bytes"] in {0, 400}  # whether it was cut before the service read it


async def test_an_upload_that_comes_too_slowly_is_given_up(stored: Storing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced_bodies, "BODY_S", 0.05)
    signed = await stored.upload_url("file", 1000)
    reader, writer = await connected(stored, put_head(stored, signed, 1000), b"x")
    with anyio.fail_after(30):
        answer = await reader.read(100)
    writer.close()
    assert b"408" in answer.split(b"\r\n")[0]
    assert (await stored.post("files/list", THREAD)).status_code == 404


async def test_so_many_transfers_at_once_and_no_more(stored: Storing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "OWN_TRANSFERS_MAX", 1)
    await stored.put("file", b"12")
    signed = await stored.upload_url("slow", 1000)
    _, writer = await connected(stored, put_head(stored, signed, 1000), b"x")
    await until(lambda: stored.service.service.organisations.use[2]("default"))
    refused = await stored.service.http.get((await stored.download_url("file"))["url"])
    assert (refused.status_code, refused.json()["error"], refused.headers["retry-after"]) == (429, "rate_limited", "1")
    writer.close()
    await until(lambda: not stored.service.service.organisations.use[2]("default"))
    assert (await stored.service.http.get((await stored.download_url("file"))["url"])).status_code == 200


async def test_a_download_whose_client_goes_away_is_ended(stored: Storing) -> None:
    await stored.write(thread(), large=b"x" * 20_000_000)
    path = (await stored.download_url("large"))["url"].removeprefix(stored.service.base)
    reader, writer = await connected(stored, f"GET {path} HTTP/1.1\r\nhost: {stored.service.base[7:]}\r\n\r\n")
    assert b"200" in await reader.read(100)
    assert stored.service.service.organisations.use[2]("default")
    writer.close()
    await until(lambda: not stored.service.service.organisations.use[2]("default"))


async def test_a_file_that_cannot_be_read_to_its_end_is_broken_off(tmp_path: Path) -> None:
    async with storing(tmp_path) as stored:
        await stored.write(thread(), large=b"x" * 20_000_000)
        url = (await stored.download_url("large"))["url"]
        parts = [one for one in stored.blobs.rglob("*") if one.is_file() and one.stat().st_size > 1_000_000]
        min(parts, key=lambda one: one.stat().st_size).unlink()  # the last
        with pytest.raises(Exception, match=r"(?i)incomplete|closed|peer"):
            await stored.service.http.get(url)


async def test_a_public_url_is_what_signed_urls_begin_with(tmp_path: Path) -> None:
    async with storing(tmp_path, public_url="https://moonpool.example") as stored:
        answer = await stored.upload_url("file", 1)
        assert answer["url"].startswith("https://moonpool.example/v1/blobs/")


async def test_requests_by_url_count_as_those_of_who_asked_for_it(tmp_path: Path) -> None:
    async with storing(tmp_path, caller_rate_limit="3/h") as stored:
        await stored.write(thread(), file=b"12")
        url = (await stored.download_url("file"))["url"]
        statuses = [(await stored.service.http.get(url)).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]


@pytest.mark.req("J-040", "J-042")
async def test_urls_of_a_revoked_key_end_within_a_second_and_so_does_what_is_on_its_way(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()

    async def configuration_of(_: HttpCaller) -> SandboxConfiguration:
        return WITH_STORAGE

    storage = StorageOfService(trees=trees_in_memory(), configuration_of=configuration_of)
    async with (
        serving(state=state, keys=True, storage=storage) as service,
        open_service_data(Settings.load({}), state, {}) as data,
    ):
        await data.organisations.ensure("acme")
        key = await data.keys.create(KeySpec(organisation_id="acme"))
        headers = {"authorization": f"Bearer {key.text}"}
        body = {**THREAD, "path": "file", "content_length": 4}
        up = (await service.http.post("/v1/files/upload_url", json=body, headers=headers)).json()
        assert (await service.http.put(up["url"], content=b"1234", headers=sent_with(up))).status_code == 200
        down = (
            await service.http.post("/v1/files/download_url", json={**THREAD, "path": "file"}, headers=headers)
        ).json()
        assert (await service.http.get(down["url"])).content == b"1234"

        async def endless() -> AsyncIterator[bytes]:
            yield b"1"
            await anyio.sleep_forever()

        long = asyncio.ensure_future(
            service.http.put(up["url"], content=endless(), headers={**sent_with(up), "content-length": "4"})
        )
        await until(lambda: service.service.organisations.use[2]("acme"))
        await data.keys.revoke(key.stored.key_id)
        answers = [
            await service.http.get(down["url"]),
            await service.http.put(up["url"], content=b"4321", headers=sent_with(up)),
        ]
        assert [(one.status_code, one.json()["error"]) for one in answers] == [REFUSED] * 2
        await until(lambda: not service.service.organisations.use[2]("acme"))  # by the service, not by its client
        long.cancel()
        await asyncio.wait({long})
        held = await storage.trees.of("acme").snapshot(thread())
        assert held.version == 1


async def test_the_key_of_an_installation_is_made_once_and_is_private(tmp_path: Path) -> None:
    first = FileStores(tmp_path).url_key()
    assert (FileStores(tmp_path).url_key(), len(first)) == (first, 32)
    (path,) = tmp_path.rglob("urls")
    assert (path.stat().st_mode & 0o777, path.stat().st_uid) == (0o600, os.geteuid())


@pytest.mark.slow
@pytest.mark.req("J-042")
async def test_160_mib_pass_with_flat_memory(stored: Storing) -> None:
    size, piece = 160 * 1024**2, b"\x5a" * 1024**2
    signed = await stored.upload_url("large", size)

    async def content() -> AsyncIterator[bytes]:
        for _ in range(size // len(piece)):
            yield piece

    before = resident_bytes()
    headers = {**sent_with(signed), "content-length": str(size)}
    assert (await stored.service.http.put(signed["url"], content=content(), headers=headers)).status_code == 200
    digest, most = hashlib.sha256(), resident_bytes()
    async with stored.service.http.stream("GET", (await stored.download_url("large"))["url"]) as response:
        async for got in response.aiter_bytes(1024**2):
            digest.update(got)
            most = max(most, resident_bytes())
    (record,) = await stored.recorded()
    assert record["digest"] == f"sha256:{digest.hexdigest()}"
    assert most - before < 100 * 1024**2


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_the_openapi_document_has_what_a_signed_url_answers(stored: Storing) -> None:
    document = (await stored.service.http.get("/v1/openapi.json")).json()
    blobs = document["paths"]["/v1/blobs/{token}"]

    assert document["info"]["title"] == "Moonpool"
    assert {method: (about["security"], "206" in about["responses"]) for method, about in blobs.items()} == {
        "get": ([], True),
        "put": ([], False),
    }
