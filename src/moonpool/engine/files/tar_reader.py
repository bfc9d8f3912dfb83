"""Reads the tar files that sandboxes make, and nothing else: POSIX pax, no compression, no extensions.

The standard library's reader accepts whatever was ever called tar, with all that comes from it. An archive out of a
sandbox is hostile bytes, and we know how our own guest writes them (`moonpool_guest.files.packing`), so everything else
is refused: unknown types, other number formats, large or unknown pax records, a wrong checksum, a missing end.

Blocking; linear in the file; holds one header at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

from moonpool.engine.files.errors import ArchiveRefusedError, shown
from moonpool_wire.limits import ARCHIVE_ENTRIES_MAX

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_BLOCK: Final = 512
_CHUNK: Final = 1024 * 1024
_PAX_BYTES_MAX: Final = 64 * 1024
_PAX_KEYS: Final = frozenset({"path", "linkpath", "size", "hdrcharset"})
_KINDS: Final[dict[bytes, Literal["file", "folder", "link", "hardlink"]]] = {
    b"0": "file", b"\0": "file", b"5": "folder", b"2": "link", b"1": "hardlink"
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TarEntry:
    """One member. Names are as they stand there: not judged yet, perhaps with surrogates."""

    name: str
    kind: Literal["file", "folder", "link", "hardlink"]
    mode: int
    size: int
    target: str


class TarReader:
    """Walks a tar file once. Read an entry's content before the next entry, or not at all."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = 0  # content of the current entry that was not read

    def entries(self) -> Generator[TarEntry]:
        """Every entry. Raises ArchiveRefusedError at the first thing that our guest does not write."""
        for _ in range(ARCHIVE_ENTRIES_MAX + 1):
            header, pax = self._header(), dict[str, str]()
            if header[156:157] == b"x":
                pax = self._pax(_number(header[124:136]))
                header = self._header()
            if not any(header):
                return
            entry = _entry(header, pax)
            self._left = entry.size
            yield entry
            for _chunk in self.content():
                pass
            self._take(-entry.size % _BLOCK)
        raise ArchiveRefusedError(f"the archive has more than {ARCHIVE_ENTRIES_MAX:,} entries; fetch less at a time")

    def content(self) -> Iterator[bytes]:
        """The current entry's bytes."""
        while self._left:
            chunk = self._take(min(self._left, _CHUNK))
            self._left -= len(chunk)
            yield chunk

    def _header(self) -> bytes:
        block = self._take(_BLOCK)
        if any(block):
            without = sum(block) - sum(block[148:156]) + 8 * 0x20
            if _number(block[148:156]) != without or block[257:263] != b"ustar\0":
                raise ArchiveRefusedError("the archive is damaged: a header is none")
        return block

    def _pax(self, size: int) -> dict[str, str]:
        """Records of an extended header: a length, a space, `KEY=VALUE`, a line end."""
        if size > _PAX_BYTES_MAX:
            raise ArchiveRefusedError("the archive has a header that is too large")
        rest = self._take(size)
        self._take(-size % _BLOCK)
        found: dict[str, str] = {}
        while rest:
            length, _, _ = rest.partition(b" ")
            if not length.isdigit() or len(length) > 6 or not 0 < int(length) <= len(rest):
                raise ArchiveRefusedError("the archive is damaged: an extended header is none")
            record, rest = rest[len(length) + 1 : int(length)], rest[int(length) :]
            key, mark, value = record.decode("utf-8", "surrogateescape").partition("=")
            if not mark or not value.endswith("\n") or key not in _PAX_KEYS or key in found:
                raise ArchiveRefusedError(f"the archive has an extended header that is not ours: {shown(key)}")
            found[key] = value[:-1]
        return found

    def _take(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise ArchiveRefusedError("the archive ends too early")
        return data


def _entry(header: bytes, pax: dict[str, str]) -> TarEntry:
    kind = _KINDS.get(header[156:157])
    if kind is None:
        raise ArchiveRefusedError("the archive holds a device, a pipe or something else that is no file")
    prefix, name = _text(header[345:500]), _text(header[:100])
    size = pax.get("size", "")
    if size and (not size.isascii() or not size.isdigit() or len(size) > 15):
        raise ArchiveRefusedError("the archive is damaged: a size is none")
    entry = TarEntry(
        name=pax.get("path", f"{prefix}/{name}" if prefix else name),
        kind=kind,
        mode=_number(header[100:108]),
        size=int(size) if size else _number(header[124:136]),
        target=pax.get("linkpath", _text(header[157:257])),
    )
    if kind != "file" and entry.size:
        raise ArchiveRefusedError("the archive is damaged: something that is no file has a content")
    return entry


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    digits = field.strip(b" \0")
    if digits and digits.strip(b"01234567"):
        raise ArchiveRefusedError("the archive is damaged: a number is none")
    return int(digits or b"0", 8)
