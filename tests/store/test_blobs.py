"""The blob store: in memory, in a folder and in S3, which behave alike; and what is special about each."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
import pytest

from moonpool.core.errors import ConfigError
from moonpool.features.storage.model import BLOB_BYTES_MAX
from moonpool.store.blobs.addresses import FolderAddress, S3Address, blob_address
from moonpool.store.blobs.base import LISTED_MAX, StorageDamagedError, StorageError
from moonpool.store.blobs.folder import open_folder
from moonpool.store.blobs.memory import MemoryBlobs
from moonpool.store.blobs.opening import open_blobs
from moonpool.store.blobs.s3 import S3Blobs
from moonpool.store.private_files import StoreFolderError
from s3_server import CREDENTIALS
from swift_server import SWIFT_CREDENTIALS, swift_bucket, swift_server
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from moonpool.store.blobs.base import BlobStore
    from s3_server import S3Server

__all__ = ["swift_bucket", "swift_server"]
pytestmark = pytest.mark.anyio
FOLDER = Path("/nowhere")
NAME = "0a1b2c/3d4e/0-5"


BUCKETS = {"s3": ("s3_bucket", CREDENTIALS), "swift": ("swift_bucket", SWIFT_CREDENTIALS)}


@pytest.fixture(params=["memory", "folder", "s3", pytest.param("swift", marks=pytest.mark.slow)])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[BlobStore]:
    if request.param == "memory":
        yield MemoryBlobs()
        return
    bucket, credentials = BUCKETS.get(request.param, ("", {}))
    url = request.getfixturevalue(bucket) if bucket else ""
    async with open_blobs(blob_address(url, tmp_path / "files", credentials)) as opened:
        yield opened


async def test_what_is_put_is_read_whole_and_in_parts(blobs: BlobStore) -> None:
    await blobs.put(NAME, b"hello")
    assert await blobs.get(NAME) == b"hello"
    assert await blobs.get(NAME, 1, 3) == b"ell"
    assert await blobs.get(NAME, 3) == b"lo"
    await blobs.check()


async def test_the_largest_blob_is_kept(blobs: BlobStore) -> None:
    content = os.urandom(BLOB_BYTES_MAX)
    await blobs.put(NAME, content)
    assert await blobs.get(NAME) == content
    assert await blobs.get(NAME, BLOB_BYTES_MAX - 3, 3) == content[-3:]
    with pytest.raises(AssertionError):
        await blobs.put("0a1b2c/3d4e/1", content + b"x")


async def test_a_name_is_written_once(blobs: BlobStore) -> None:
    await blobs.put(NAME, b"first")
    with pytest.raises(StorageError):
        await blobs.put(NAME, b"second")
    assert await blobs.get(NAME) == b"first"


async def test_what_is_not_there_is_told_apart_from_a_store_that_fails(blobs: BlobStore) -> None:
    with pytest.raises(StorageDamagedError):
        await blobs.get(NAME)
    await blobs.put(NAME, b"hello")
    with pytest.raises(StorageDamagedError):
        await blobs.get(NAME, 3, 10)


async def test_blobs_of_a_tree_and_of_a_commit_are_listed_and_removed(blobs: BlobStore) -> None:
    names = {"aaaa/c1/0", "aaaa/c1/1", "aaaa/c2/0"}
    for name in {*names, "aaab/c1/0", "bbbb/c1/0", "aaaa1/c1/0"}:
        await blobs.put(name, name.encode())
    assert set(await blobs.list("aaaa/")) == names
    assert set(await blobs.list("aaaa/c1/")) == {"aaaa/c1/0", "aaaa/c1/1"}
    await blobs.delete(["aaaa/c1/0", "aaaa/c1/1", "aaaa/never/0"])
    assert set(await blobs.list("aaaa/")) == {"aaaa/c2/0"}
    assert await blobs.list("zzzz/") == []
    assert await blobs.get("aaab/c1/0") == b"aaab/c1/0"


@pytest.mark.parametrize(
    "name", ["../etc/passwd", "aa/../0", "aa/bb/..", "aa/bb", "/aa/bb/0", "aa/bb/0/1", "aa//0", "A/b/c"]
)
async def test_no_other_name_reaches_the_store(blobs: BlobStore, name: str) -> None:
    with pytest.raises(StorageDamagedError):
        await blobs.put(name, b"x")
    with pytest.raises(StorageDamagedError):
        await blobs.get(name)
    with pytest.raises(StorageDamagedError):
        await blobs.delete([name])


async def test_many_at_once(blobs: BlobStore) -> None:
    names = [f"many/c1/{number}" for number in range(40)]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(blobs.put, name, name.encode())
        assert set(await blobs.list("many/")) == set(names)
        await blobs.delete(names)
        assert await blobs.list("many/") == []


async def test_a_folder_is_for_its_owner_only_and_holds_no_rest(tmp_path: Path) -> None:
    folder = await open_folder(tmp_path / "files")
    await folder.put(NAME, b"hello")
    await folder.close()
    found = sorted((tmp_path / "files").rglob("*"))
    modes = {stat.S_IMODE(one.stat().st_mode) for one in found}
    assert ([one.name for one in found], modes) == (["0a", "0a1b2c.3d4e.0-5"], {0o700, 0o600})
    assert stat.S_IMODE((tmp_path / "files").stat().st_mode) == 0o700
    with pytest.raises(StorageError, match="closed"):
        await folder.get(NAME)


async def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0a1b2c.3d4e.0-5").write_bytes(b"secret")
    folder = await open_folder(tmp_path / "files")
    (tmp_path / "files" / "0a").symlink_to(outside)
    (tmp_path / "files" / "bb").mkdir()
    (tmp_path / "files" / "bb" / "bb.cc.0").symlink_to(outside / "0a1b2c.3d4e.0-5")
    for name in (NAME, "bb/cc/0"):
        with pytest.raises(StorageError):
            await folder.get(name)
    with pytest.raises(StorageError):
        await folder.put("0a1b2c/3d4e/1", b"x")
    assert [one.name for one in outside.iterdir()] == ["0a1b2c.3d4e.0-5"]
    await folder.close()


async def test_what_a_kill_left_half_written_is_listed_and_removed(tmp_path: Path) -> None:
    folder = await open_folder(tmp_path / "files")
    await folder.put(NAME, b"hello")
    left = tmp_path / "files" / "0a" / "0a1b2c.3d4e.1-9.part"
    left.write_bytes(b"he")
    assert set(await folder.list("0a1b2c/3d4e/")) == {NAME, "0a1b2c/3d4e/1-9"}
    with pytest.raises(StorageDamagedError):
        await folder.get("0a1b2c/3d4e/1-9")
    await folder.delete(["0a1b2c/3d4e/1-9"])
    assert not left.exists()
    await folder.close()


async def test_no_more_are_listed_than_a_sweep_takes(tmp_path: Path) -> None:
    folder = await open_folder(tmp_path / "files")
    (tmp_path / "files" / "aa").mkdir()
    for number in range(LISTED_MAX + 5):
        (tmp_path / "files" / "aa" / f"aa.bb.{number}").touch()
    assert len(await folder.list("aa/")) == LISTED_MAX
    await folder.close()


async def test_a_folder_that_was_replaced_or_is_not_ours_is_noticed(tmp_path: Path) -> None:
    folder = await open_folder(tmp_path / "files")
    (tmp_path / "files").rename(tmp_path / "moved")
    with pytest.raises(StorageError):
        await folder.check()
    (tmp_path / "files").mkdir()
    with pytest.raises(StorageError):
        await folder.check()
    await folder.close()
    (tmp_path / "a file").touch()
    with pytest.raises(StoreFolderError):
        await open_folder(tmp_path / "a file")


async def test_a_bucket_that_is_not_there_is_one_clear_error_without_its_address(
    s3_server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    gone = blob_address("s3://nothing/p?endpoint=" + s3_server.endpoint, FOLDER, CREDENTIALS)
    with pytest.raises(StorageError) as raised:
        async with open_blobs(gone):
            pytest.fail("there is no such bucket")
    assert "its bucket is not there; its operator has to make it" in str(raised.value)
    assert "s3://nothing/p: there is no such bucket; make it, or name another in files_url" in caplog.text
    assert "nothing" not in str(raised.value)
    assert "127.0.0.1" not in str(raised.value)
    assert raised.value.retryable


@pytest.mark.slow
@pytest.mark.parametrize("key", ["test:tester", "test:nobody"], ids=["a wrong secret", "an unknown key"])
async def test_wrong_credentials_are_one_clear_error_without_them(
    swift_bucket: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "a-wrong-secret"}
    with pytest.raises(StorageError) as raised:
        async with open_blobs(blob_address(swift_bucket, FOLDER, wrong)):
            pytest.fail("the store takes these credentials")
    assert str(raised.value).startswith("the storage of files cannot be used: it was not possible to list")
    assert raised.value.__cause__ is None
    for private in ("127.0.0.1", "files-", *wrong.values()):
        assert private not in str(raised.value)
    assert "a-wrong-secret" not in caplog.text


@pytest.mark.slow
async def test_credentials_that_become_wrong_change_nothing(swift_bucket: str) -> None:
    wrong = {**SWIFT_CREDENTIALS, "AWS_SECRET_ACCESS_KEY": "a-wrong-secret"}
    refused = S3Blobs(cast("S3Address", blob_address(swift_bucket, FOLDER, wrong)))
    async with open_blobs(blob_address(swift_bucket, FOLDER, SWIFT_CREDENTIALS)) as blobs:
        await blobs.put(NAME, b"hello")
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: refused.put("0a1b2c/3d4e/1", b"x"), lambda: refused.get(NAME), lambda: refused.get(NAME, 1, 3),
            lambda: refused.delete([NAME]), lambda: refused.list("0a1b2c/"),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(StorageError) as raised:
                await call()
            assert (raised.value.code, raised.value.__cause__) == ("storage_unusable", None)
            assert "127.0.0.1" not in str(raised.value)
        assert await blobs.list("0a1b2c/") == [NAME]
        assert await blobs.get(NAME) == b"hello"


@dataclass
class HostileStore:
    """Answers every GET with `head` and `body`, then with more than anybody asked for."""

    head: bytes = b""
    body: bytes = b""
    more: int = 0
    sent: int = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n" % (self.head, len(self.body) + self.more))
            writer.write(self.body)
            while self.sent < self.more:
                writer.write(bytes(64 * 1024))
                await writer.drain()
                self.sent += 64 * 1024
        writer.transport.abort()


@pytest.fixture
async def hostile() -> AsyncGenerator[tuple[HostileStore, S3Blobs]]:
    store = HostileStore()
    async with await asyncio.start_server(store, "127.0.0.1", 0) as server:
        endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield store, S3Blobs(S3Address(bucket="bucket", prefix="p", endpoint=endpoint, credentials=CREDENTIALS))


async def test_of_a_store_that_sends_too_much_no_more_is_read(hostile: tuple[HostileStore, S3Blobs]) -> None:
    store, blobs = hostile
    store.head = (
        b"206 Partial Content\r\nContent-Range: bytes 0-4/5\r\nETag: a\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT"
    )
    store.body, store.more = b"hello", 256 * 1024**2

    with suppress(StorageDamagedError):  # unless what was asked for came alone, in a first packet
        assert await blobs.get(NAME, 0, 5) == b"hello"

    assert store.sent < store.more / 4


async def test_names_of_others_in_a_list_are_left_alone(hostile: tuple[HostileStore, S3Blobs]) -> None:
    store, blobs = hostile
    keys = ("p/aa/c1/0-5", "p/bb/c1/0-5", "p/aa/c1/Backup", "p/aa/c1", "p/aa/c1/0/1")
    rest = b"<LastModified>2015-10-21T07:28:00Z</LastModified><ETag>a</ETag><Size>1</Size>"
    found = b"".join(b"<Contents><Key>%b</Key>%b</Contents>" % (key.encode(), rest) for key in keys)
    store.head = b"200 OK"
    store.body = b"<ListBucketResult><IsTruncated>false</IsTruncated>%b</ListBucketResult>" % found

    assert await blobs.list("aa/") == ["aa/c1/0-5"]


def test_addresses_are_read() -> None:
    keys = {**CREDENTIALS, "AWS_SESSION_TOKEN": "token"}
    read = blob_address("s3://my-bucket/a/b/?endpoint=https://s3.example.com:9000&region=eu-central-1", FOLDER, keys)
    assert isinstance(read, S3Address)
    assert (str(read), read.endpoint) == ("s3://my-bucket/a/b", "https://s3.example.com:9000")
    assert read.config() == {
        "region": "eu-central-1", "endpoint": "https://s3.example.com:9000", "access_key_id": "test",
        "secret_access_key": "test", "session_token": "token",
    }  # fmt: skip
    assert "secret" not in repr(read)
    assert blob_address("", FOLDER, {}) == FolderAddress(FOLDER)
    role = blob_address("s3://my-bucket", FOLDER, {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"})
    assert isinstance(role, S3Address)
    assert role.config() == {"region": "us-east-1"}


@every_row(
    "url",
    [
        "https://bucket", "s3://", "s3://KEY:SECRET@bucket/p", "s3://bucket/../p", "s3://bucket/a b", "s3://bucket/p#f",
        "s3://bucket?key=SECRET", "s3://bucket?region=A", "s3://bucket?region=a&region=b", "s3://bucket?endpoint=ftp://h",
        "s3://bucket?endpoint=https://KEY:SECRET@h", "s3://bucket?endpoint=https://h:port", "s3://bucket/" + "a" * 3000,
    ],
)  # fmt: skip
def test_other_addresses_are_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        blob_address(url, FOLDER, CREDENTIALS)
    assert "SECRET" not in str(raised.value)


def test_without_credentials_nothing_is_guessed() -> None:
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID"):
        blob_address("s3://bucket", FOLDER, {"AWS_ACCESS_KEY_ID": "only one"})
