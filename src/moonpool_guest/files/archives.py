"""What is in a tar or zip: members and their contents, one after the other, whatever wrote the archive.

Only reading, by the standard library's parsers; `unpacking` decides. A parser that a hostile archive leads astray does
so inside the sandbox: its memory, its quota, and the host's clock ends it.
"""

import os
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import IO, Any, NamedTuple, cast

from moonpool_guest.files.refusals import RefusedError

_CHUNK = 65536
_GZIP = b"\x1f\x8b"
_OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
UNREADABLE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError),
    *(ValueError, OverflowError, NotImplementedError, RuntimeError),
)
"""What the parsers raise about an archive that is damaged or made to mislead them; also while a content is read."""


class Member(NamedTuple):
    """One entry of an archive. Nothing of it is checked yet."""

    name: str
    kind: str  # file, folder, link, hardlink
    mode: int
    modified_s: int
    target: str = ""


Content = Callable[[], "Generator[bytes]"]


def _nothing() -> "Generator[bytes]":
    yield from ()


def read_tar(pieces: "Iterator[bytes]") -> "Generator[tuple[Member, Content]]":
    """Members of a tar, plain or gzip, while it arrives. Takes every piece there is."""
    stream = _Stream(pieces)
    try:
        with tarfile.open(
            fileobj=cast("IO[bytes]", stream), mode="r|", encoding="utf-8", errors="surrogateescape"
        ) as tar:
            for info in tar:
                yield _tar_member(tar, info)
    except UNREADABLE as error:
        raise RefusedError("archive", f"it is no tar that can be read: {error}") from None
    stream.drain()


def _tar_member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> "tuple[Member, Content]":
    kind = "file" if info.isreg() else "folder" if info.isdir() else "link" if info.issym() else ""
    kind = "hardlink" if info.islnk() else kind
    if not kind or info.sparse is not None or info.type not in tarfile.SUPPORTED_TYPES:
        what = "a sparse file" if info.isreg() else "a device, a pipe or something else that is no file"
        raise RefusedError("archive", f"{info.name[:200]!r} is {what}")
    member = Member(info.name, kind, info.mode, max(0, int(info.mtime)), info.linkname)

    def content() -> "Generator[bytes]":
        file = tar.extractfile(info)
        while file is not None and (chunk := file.read(_CHUNK)):
            yield chunk

    return member, content if kind == "file" else _nothing


class _Stream:
    """Pieces as a file that tarfile reads from; gzip is undone, a bounded part at a time."""

    def __init__(self, pieces: "Iterator[bytes]") -> None:
        self._pieces = pieces
        self._gunzip: Any = None
        self._buffer = bytearray()
        self._started = False

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size and self._more():
            pass
        taken = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return taken

    def _more(self) -> bool:
        gunzip = self._gunzip
        if gunzip is not None and gunzip.unconsumed_tail:
            self._buffer += gunzip.decompress(gunzip.unconsumed_tail, _CHUNK)
            return True
        piece = next(self._pieces, None)
        if piece is None:
            if gunzip is not None and not gunzip.eof:
                raise EOFError("it ends in the middle of its gzip stream")
            return False
        if not self._started:
            self._start(piece)
        if self._gunzip is None:
            self._buffer += piece
            return True
        if not self._gunzip.eof:
            self._buffer += self._gunzip.decompress(piece, _CHUNK)
            piece = self._gunzip.unused_data
        if piece.strip(b"\0"):
            raise ValueError("something follows its gzip stream")
        return True

    def _start(self, piece: bytes) -> None:
        self._started = True
        for magic, name in _OTHERS.items():
            if piece.startswith(magic):
                raise RefusedError("archive", f"it is {name}; give a tar, a tar.gz or a zip and say which")
        if piece.startswith(_GZIP):
            self._gunzip = zlib.decompressobj(31)

    def drain(self) -> None:
        """Take what stands behind the end mark."""
        for _ in self._pieces:
            pass


def read_zip(fd: int) -> "Generator[tuple[Member, Content]]":
    """Members of a zip in a file."""
    try:
        with os.fdopen(os.dup(fd), "rb") as file, zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                yield _zip_member(archive, info)
    except UNREADABLE as error:
        raise RefusedError("archive", f"it is no zip that can be read: {error}") from None


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> "tuple[Member, Content]":
    """SECURITY: `orig_filename` is what stands in the file; `filename` was shortened at a NUL."""
    name, mode = info.orig_filename, info.external_attr >> 16
    if "\\" in name or "\0" in name:
        raise RefusedError("archive", f"{name[:200]!r}: a backslash or NUL in a name")
    if info.flag_bits & 1:
        raise RefusedError("archive", f"{name[:200]!r} is encrypted")
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
        raise RefusedError("archive", f"{name[:200]!r} is a link, a device or something else that is no file")
    is_folder = info.is_dir()
    modified_s = _modified(info)
    member = Member(name, "folder" if is_folder else "file", mode or (0o755 if is_folder else 0o644), modified_s)

    def content() -> "Generator[bytes]":
        with archive.open(info) as file:
            while chunk := file.read(_CHUNK):
                yield chunk

    return member, _nothing if is_folder else content


def _modified(info: zipfile.ZipInfo) -> int:
    try:
        return max(0, int(time.mktime((*info.date_time, 0, 0, -1))))
    except (ValueError, OverflowError):
        return 0
