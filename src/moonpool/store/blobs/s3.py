"""Blobs in a bucket of S3, or of a store that speaks its protocol, by `obstore`. Imported only where one is configured.

A name is written once, so nothing depends on conditional requests. Where the store has them, a name that is there is
not replaced.

SECURITY: of a blob no more is read than was asked for, whatever the store sends; names of a list that are not ours are
left alone. What the library itself reads as a whole (lists, errors) is not bounded.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError, PreconditionError
from obstore.store import S3Store

from moonpool.features.storage.model import BLOB_BYTES_MAX
from moonpool.store.blobs.base import (
    LISTED_MAX,
    StorageError,
    check_content,
    check_name,
    check_prefix,
    is_name,
    missing,
    unusable,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from obstore.store import ClientConfig, RetryConfig

    from moonpool.store.blobs.addresses import S3Address

_log = logging.getLogger(__name__)
_CONNECT_S: Final = 5
_REQUEST_S: Final = 30
"""Of one attempt, which moves 8 MiB at most."""
_RETRIES: Final = 3
_RETRY_S: Final = 30
_ANSWER_S: Final = 75.0
"""Of an operation with all its attempts."""


class S3Blobs:
    """The `BlobStore` of one process."""

    def __init__(self, address: S3Address) -> None:
        client: ClientConfig = {
            "timeout": timedelta(seconds=_REQUEST_S),
            "connect_timeout": timedelta(seconds=_CONNECT_S),
            "allow_http": address.endpoint.startswith("http://"),
        }
        retry: RetryConfig = {
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=_RETRY_S),
            "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=3), "base": 2},
        }
        self._address = address
        self._store = S3Store(
            address.bucket, prefix=address.prefix or None, config=address.config(), client_options=client,
            retry_config=retry,
        )  # fmt: skip
        self._has_create = True

    async def put(self, name: str, content: bytes, /) -> None:
        check_name(name)
        check_content(content)
        with self._faults("write"):
            async with asyncio.timeout(_ANSWER_S):
                if self._has_create and await self._created(name, content):
                    return
                await obstore.put_async(self._store, name, content, mode="overwrite", use_multipart=False)

    async def _created(self, name: str, content: bytes) -> bool:
        """False: the store does not know such requests."""
        try:
            await obstore.put_async(self._store, name, content, mode="create", use_multipart=False)
        except NotSupportedError:
            self._has_create = False
            return False
        except (AlreadyExistsError, PreconditionError):  # by an attempt whose answer was lost, or by somebody else
            if await self._whole(name) != content:
                raise
        return True

    async def get(self, name: str, /, offset: int = 0, length: int | None = None) -> bytes:
        check_name(name)
        with self._faults("read"):
            async with asyncio.timeout(_ANSWER_S):
                if length is None:
                    return (await self._whole(name))[offset:]
                found = await obstore.get_async(self._store, name, options={"range": (offset, offset + length)})
                async for content in found.stream(min_chunk_size=length):  # one, unless there is more than that
                    if len(content) == length:
                        return bytes(content)
                    break
        raise missing()

    async def _whole(self, name: str) -> bytes:
        found = await obstore.get_async(self._store, name)
        if found.meta["size"] > BLOB_BYTES_MAX:
            raise missing()
        return bytes(await found.bytes_async())

    async def delete(self, names: Sequence[str], /) -> None:
        checked = [check_name(name) for name in names]
        with self._faults("remove"):
            async with asyncio.timeout(_ANSWER_S):
                try:
                    await obstore.delete_async(self._store, checked)
                except FileNotFoundError:  # stores without the request for many
                    for name in checked:
                        await self._delete_one(name)

    async def _delete_one(self, name: str) -> None:
        try:
            await obstore.delete_async(self._store, name)
        except FileNotFoundError:
            return

    async def list(self, prefix: str, /) -> Sequence[str]:
        with self._faults("list"):
            async with asyncio.timeout(_ANSWER_S):
                return await self._listed(check_prefix(prefix), LISTED_MAX)

    async def _listed(self, prefix: str, count: int) -> Sequence[str]:
        async for chunk in obstore.list(self._store, prefix, chunk_size=count):  # pyright: ignore[reportUnknownMemberType]
            return [one["path"] for one in chunk if one["path"].startswith(prefix) and is_name(one["path"])]
        return []

    async def check(self) -> None:
        with self._faults("list"):
            async with asyncio.timeout(_REQUEST_S):
                await self._listed("health/", 1)

    async def close(self) -> None:
        """Its connections end with it."""

    @contextmanager
    def _faults(self, doing: str) -> Generator[None]:
        """SECURITY: what the library says may name hosts and requests; it goes to the log only."""
        try:
            yield
        except (BaseError, FileNotFoundError, TimeoutError, ValueError) as error:
            if "NoSuchBucket" in str(error):
                _log.warning("%s: there is no such bucket; make it, or name another in files_url", self._address)
                raise StorageError(
                    "the storage of files cannot be used: its bucket is not there; its operator has to make it"
                ) from None
            if doing == "read" and isinstance(error, FileNotFoundError):
                _log.error("a blob is missing in %s", self._address)
                raise missing() from None
            self._log(doing, error)
            raise unusable(doing) from None

    def _log(self, doing: str, error: Exception) -> None:
        why = str(error).partition("\n")[0][:500]
        _log.warning("%s: not possible to %s: %s: %s", self._address, doing, type(error).__name__, why)
