"""Files of a session: put, get, list, archive, unpack, delete. The use case behind every face.

Contents travel over the channel in pieces, in one direction at a time, between executions. The host names paths, counts
bytes and checks digests; it never opens a path of a sandbox. A caller gives bytes from any source and takes them into
any sink, which keeps the pace: nobody here holds more than a window.

INVARIANT: what `get` and `archive` hand to a sink counts only once they return a receipt. Whoever writes files from it
publishes them afterwards (`moonpool.engine.files.local_files`).
INVARIANT: every transfer that was begun is on record when its call ends, and a receipt is given only after that.
SECURITY: everything a guest says is checked against what was asked: order, window, sizes, digests, names.
"""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, Protocol, cast

import msgspec
from msgspec import Meta

from moonpool.core.errors import InputError
from moonpool.engine.files.errors import refusal
from moonpool.engine.files.exchange import ANSWER_S, exchanging
from moonpool.engine.files.recorded_files import Copy, recorded_input
from moonpool.engine.files.streams import receive_all, send_all
from moonpool.sandboxes.messages import (
    FileArchive,
    FileDelete,
    FileDone,
    FileEntries,
    FileGet,
    FileList,
    FileMkdir,
    FileOpening,
    FilePut,
    FileUnpack,
)
from moonpool_wire.filenames import NameFault, OutsideFault, split_place
from moonpool_wire.jsonbounds import exceeded_bound
from moonpool_wire.limits import ARCHIVE_ENTRIES_MAX, FILE_ENTRIES_MAX, FILE_PATH_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractAsyncContextManager

    from moonpool.engine.files.exchange import FileExchange
    from moonpool.engine.files.recorded_files import InputKeeper
    from moonpool.engine.files.records import TransferRecorder
    from moonpool.engine.files.streams import Sink, Source
    from moonpool.sandboxes.base import Sandbox

ArchiveForm = Literal["tar", "zip"]
_HEADERS_BYTES: Final = 3 * 1024  # of one tar member at most, padding included
_ORDERS = itertools.count(1)  # a guest that answers an order of another sandbox is found out, too


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a listing. SECURITY: everything in it is the guest's; `path` may hold what a terminal acts on."""

    path: Annotated[str, Meta(min_length=1, max_length=4 * FILE_PATH_BYTES_MAX)]  # below the folder that was listed
    kind: Literal["file", "folder", "link", "other"]  # links are not followed
    size: Annotated[int, Meta(ge=0, le=2**62)] = 0  # bytes
    mode: Annotated[int, Meta(ge=0, le=0o7777)] = 0  # rights, as of chmod
    modified_s: Annotated[int, Meta(ge=0, le=2**53)] = 0  # seconds since 1970
    escaped: bool = False  # the name is no UTF-8 and stands here escaped; only an archive holds it


@dataclass(frozen=True, slots=True, kw_only=True)
class FileListing:
    """What is in a folder. `truncated`: there is more than a listing holds."""

    entries: tuple[FileEntry, ...]
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReceipt:
    """What was transferred. The digest is ours, over the bytes that passed here."""

    path: str
    size: int
    sha256: str
    entries: int = 1  # files and folders
    skipped: int = 0  # left out of an archive: links that lead elsewhere, pipes, what cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """Bounds of transfers. Made of settings."""

    file_bytes_max: int
    disk_bytes_max: int
    timeout_s: float
    answer_s: float = ANSWER_S

    @property
    def archive_bytes_max(self) -> int:
        """A whole quota as a tar stream."""
        return self.disk_bytes_max + self.disk_bytes_max // 10 + ARCHIVE_ENTRIES_MAX * _HEADERS_BYTES


class FileSession(Protocol):
    """What a session offers here (`moonpool.engine.sessions.Session`)."""

    def at_rest(self, *, afresh: bool) -> AbstractAsyncContextManager[Sandbox]:
        """The session's sandbox, opened if need be, with no code running in it and none that starts meanwhile.

        When an earlier sandbox has ended, its files are gone: `afresh` says that a new one will do.
        """
        ...


@dataclass(frozen=True, slots=True)
class AtRest:
    """A `FileSession` of a sandbox in which no code runs, and none starts meanwhile."""

    sandbox: Sandbox

    @asynccontextmanager
    async def at_rest(self, *, afresh: bool) -> AsyncGenerator[Sandbox]:
        """The sandbox, as it is."""
        del afresh
        yield self.sandbox


class SessionFiles:
    """The files of one session."""

    def __init__(
        self, session: FileSession, limits: FileLimits, recorder: TransferRecorder, keeper: InputKeeper | None = None
    ) -> None:
        """`keeper` keeps what a replay must do as well."""
        self._session, self._limits, self._recorder, self._keeper = session, limits, recorder, keeper

    async def put(self, path: str, source: Source, *, mode: int = 0o644, replace: bool = False) -> FileReceipt:
        """Write a file of the bytes of `source`, whole or not at all; missing folders are made.

        Raises FileTransferError.
        """
        opening = FilePut(
            order=next(_ORDERS), path=path, mode=mode, replace=replace, bytes_max=self._limits.file_bytes_max
        )
        return await self._send(opening, source, "file")

    async def unpack(
        self, path: str, source: Source, *, form: ArchiveForm = "tar", replace: bool = False
    ) -> FileReceipt:
        """Unpack a tar (plain or gzip) or zip into the folder `path`, whole or not at all. Raises FileTransferError."""
        opening = FileUnpack(
            order=next(_ORDERS),
            path=path,
            form=form,
            replace=replace,
            bytes_max=self._limits.archive_bytes_max,
            expanded_bytes_max=self._limits.disk_bytes_max,
        )
        return await self._send(opening, source, "archive")

    async def get(self, path: str, sink: Sink) -> FileReceipt:
        """Hand a regular file to `sink`; what it got counts once the receipt is there. Raises FileTransferError."""
        opening = FileGet(order=next(_ORDERS), path=path, bytes_max=self._limits.file_bytes_max)
        return await self._fetch(opening, sink, "file")

    async def archive(self, path: str, sink: Sink) -> FileReceipt:
        """Hand a folder, or one file, to `sink` as a tar stream, made in the sandbox. Raises FileTransferError."""
        opening = FileArchive(order=next(_ORDERS), path=path, bytes_max=self._limits.archive_bytes_max)
        return await self._fetch(opening, sink, "archive")

    async def list(self, path: str = ".", *, recursive: bool = False) -> FileListing:
        """What is in a folder, within bounds. Raises FileTransferError."""
        check_path(path)
        async with self._exchange(FileList(order=next(_ORDERS), path=path, recursive=recursive)) as exchange:
            answer, body = await exchange.answer()
            if not isinstance(answer, FileEntries):
                raise exchange.violate("it answered a listing with something else")
            return FileListing(entries=_entries(exchange, body), truncated=answer.truncated)

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, an empty folder, or a folder with all that is in it. Raises FileTransferError."""
        await self._ask(FileDelete(order=next(_ORDERS), path=path, recursive=recursive))

    async def make_folder(self, path: str) -> None:
        """Make a folder and those above it; one that is there is fine. Raises FileTransferError."""
        await self._ask(FileMkdir(order=next(_ORDERS), path=path))

    # --- how

    @asynccontextmanager
    async def _exchange(self, opening: FileOpening, copy: Copy | None = None) -> AsyncGenerator[FileExchange]:
        afresh = isinstance(opening, FilePut | FileUnpack | FileMkdir)
        limits = self._limits
        async with (
            self._session.at_rest(afresh=afresh) as sandbox,
            exchanging(sandbox, opening, timeout_s=limits.timeout_s, answer_s=limits.answer_s) as exchange,
        ):
            yield exchange
            if self._keeper is not None and (done := recorded_input(opening, copy)) is not None:
                self._keeper.keep(sandbox.sandbox_id, done)

    async def _ask(self, opening: FileOpening) -> None:
        check_path(opening.path)
        async with self._exchange(opening) as exchange:
            answer, _ = await exchange.answer()
            if not isinstance(answer, FileDone):
                raise exchange.violate("it answered with something else than the end")

    async def _send(self, opening: FilePut | FileUnpack, source: Source, what: str) -> FileReceipt:
        check_path(opening.path)
        copy = None if self._keeper is None else Copy(source)
        async with (
            self._recorder.recording("in", what, opening.path) as tally,
            self._exchange(opening, copy) as exchange,
        ):
            done = await send_all(exchange, copy or source, tally, bytes_max=opening.bytes_max)
        return FileReceipt(path=opening.path, size=tally.size, sha256=tally.sha256, entries=done.entries)

    async def _fetch(self, opening: FileGet | FileArchive, sink: Sink, what: str) -> FileReceipt:
        check_path(opening.path)
        async with (
            self._recorder.recording("out", what, opening.path) as tally,
            self._exchange(opening) as exchange,
        ):
            done = await receive_all(exchange, sink, tally, bytes_max=opening.bytes_max)
        return FileReceipt(
            path=opening.path, size=tally.size, sha256=tally.sha256, entries=done.entries, skipped=done.skipped
        )


_decode_entries = msgspec.json.Decoder(list[FileEntry]).decode


def _entries(exchange: FileExchange, body: bytes) -> tuple[FileEntry, ...]:
    """The rows of a listing. SECURITY: bounded and typed, or the sandbox is ended."""
    if (bound := exceeded_bound(body, depth_max=2, containers_max=FILE_ENTRIES_MAX + 1)) is not None:
        raise exchange.violate(f"a listing with {bound}")
    try:
        entries = _decode_entries(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise exchange.violate("its listing cannot be read") from None
    return tuple(entries)


def check_path(path: str) -> None:
    """Raise NameRefusedError, InputError for a path that could not be one, before anything is sent."""
    if not isinstance(cast("object", path), str):
        raise InputError(f"a path in the sandbox must be a string, not {type(path).__name__}")
    try:
        path.encode()
        split_place(path)
    except UnicodeEncodeError:
        raise refusal(path.encode("utf-8", "replace").decode(), "name", "it is not a string") from None
    except NameFault as fault:
        raise refusal(path, "outside" if isinstance(fault, OutsideFault) else "name", str(fault)) from None
