"""A wheel becomes a folder of packages: whole or not at all.

SECURITY: nothing in a wheel is trusted. The directory at its end is bounded before it is read; every name is judged
before anything is made; only regular files come out, each once, below the folder, with a size that was counted. A
`.pth` file, which acts without being imported, is refused. Scripts, headers, data for other folders and bytecode, which
Python would take instead of a source file of any package, are left out. No code of it is run or compiled here.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import stat
import struct
import threading
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from typing import TYPE_CHECKING, Final
from zlib import error as ZlibError  # noqa: N812  an exception

from moonpool.engine.files.errors import shown
from moonpool.engine.files.local_files import is_plain
from moonpool.engine.packages.model import PackageRefusedError, PackageTooLargeError
from moonpool.engine.packages.specifiers import canonical_name
from moonpool_wire.filenames import NameFault, member_parts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_END: Final = struct.Struct("<4s4H2LH")  # of a zip file without a comment
_ZIP64_LOCATOR_BYTES: Final = 20  # before it, where there is one
_COMPRESSIONS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_DIRECTORY_BYTES_MAX: Final = 32 * 1024**2
_METADATA_BYTES_MAX: Final = 4 * 1024**2
_RECORD_BYTES_MAX: Final = 16 * 1024**2  # of 60,000 files with names of 200 characters
_HEADERS_CHARS_MAX: Final = 64 * 1024
_CHUNK_BYTES: Final = 1 << 20
_INSTALLED_ROOTS: Final = frozenset({"purelib", "platlib"})
_IGNORED_PTH: Final = frozenset({"distutils-precedence.pth"})  # setuptools: changes an import that is gone since 3.12
_ENCRYPTED: Final = 0x1


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelBounds:
    """What one wheel may take."""

    bytes_max: int
    files_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackedWheel:
    """What a wheel held."""

    name: str
    version: str
    metadata: str  # the headers of METADATA
    size: int
    files: Mapping[str, str]  # path -> SHA-256 in hex


def unpack_wheel(
    file: Path,
    folder: Path,
    bounds: WheelBounds,
    *,
    name: str,
    version: str,
    given_up: threading.Event | None = None,
) -> UnpackedWheel:
    """Unpack `file` into the empty `folder`. Raises PackageRefusedError, PackageTooLargeError; OSError of the disk.

    `name` and `version` are what the index calls it. Setting `given_up` ends it soon, in an InterruptedError.
    """
    try:
        _check_directory(file, bounds.files_max)
        with zipfile.ZipFile(file) as archive:
            return _Unpacking(archive, folder, bounds, name, version, given_up or threading.Event()).run()
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        EOFError,
        ZlibError,
        struct.error,
        ValueError,
        csv.Error,
    ) as error:
        raise _refused(name, "", f"it is damaged ({error})") from None


def _refused(name: str, path: str, why: str) -> PackageRefusedError:
    where = f" {shown(path)}:" if path else ""
    return PackageRefusedError(f"the wheel of {name} was refused:{where} {why}; nothing was installed")


def _check_directory(file: Path, files_max: int) -> None:
    """SECURITY: `zipfile` makes an object of every entry of the directory, so they are counted first.

    It reads as many bytes as the end says, whatever number of entries that gives; a ZIP64 end, if there is one, counts
    instead.
    """
    with file.open("rb") as opened:
        begin = max(0, opened.seek(0, os.SEEK_END) - _END.size)
        opened.seek(max(0, begin - _ZIP64_LOCATOR_BYTES))
        has_large_end = opened.read(4) == b"PK\6\7"
        opened.seek(begin)
        tail = opened.read()
        if len(tail) != _END.size or tail[:4] != b"PK\5\6" or tail[-2:] != b"\0\0":
            raise zipfile.BadZipFile("it is no zip file, or has a comment")
        size = _END.unpack(tail)[5]
        if has_large_end or size > min(begin, _DIRECTORY_BYTES_MAX):
            raise zipfile.BadZipFile("it holds too many entries")
        opened.seek(begin - size)
        if opened.read(size).count(b"PK\1\2") > 2 * files_max:  # folders may have entries of their own
            raise zipfile.BadZipFile("it holds too many entries")


class _Unpacking:
    def __init__(
        self,
        archive: zipfile.ZipFile,
        folder: Path,
        bounds: WheelBounds,
        name: str,
        version: str,
        given_up: threading.Event,
    ) -> None:
        self._archive, self._folder, self._bounds = archive, folder, bounds
        self._name, self._version, self._given_up = name, version, given_up
        self._kinds: dict[tuple[str, ...], bool] = {}  # whether it is a file
        self._files: dict[str, str] = {}
        self._named: dict[str, str] = {}  # the same digests, by the names in the wheel
        self._size = 0

    def run(self) -> UnpackedWheel:
        members = [(info, parts) for info in self._archive.infolist() if (parts := self._place(info))]
        info_folders = {parts[0] for _, parts in members if parts[0].endswith(".dist-info")}
        if len(info_folders) != 1:
            raise self._refused("", f"it has {len(info_folders)} .dist-info folders instead of one")
        info_folder = next(iter(info_folders))
        owner = info_folder.removesuffix(".dist-info").rpartition("-")[0]
        if canonical_name(owner) != canonical_name(self._name):  # by that name Python finds what is installed
            raise self._refused(info_folder, f"it is the metadata of {shown(owner) or 'nothing'}")
        headers = self._headers(info_folder)
        record = (info_folder, "RECORD")
        if any(parts == record and info.file_size > _RECORD_BYTES_MAX for info, parts in members):
            raise self._refused("/".join(record), "it is too large")  # SECURITY: its lines are read whole
        for info, parts in members:
            self._write(info, parts)
        self._check_record("/".join(record))
        return UnpackedWheel(
            name=canonical_name(self._name),
            version=self._version,
            metadata=headers,
            size=self._size,
            files=self._files,
        )

    def _refused(self, path: str, why: str) -> PackageRefusedError:
        return _refused(self._name, path, why)

    def _place(self, info: zipfile.ZipInfo) -> tuple[str, ...]:
        """Where an entry goes; () for one that is left out. Raises PackageRefusedError."""
        name = info.orig_filename
        try:
            parts = member_parts(name)
            if "\\" in name or not is_plain(name):
                raise NameFault("a name that is not a plain string")
        except NameFault as fault:
            raise self._refused(name, str(fault)) from None
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            raise self._refused(name, "it is a link or a device")
        if not parts or not self._take(name, parts, is_file=not info.is_dir()):
            return ()
        if info.flag_bits & _ENCRYPTED:
            raise self._refused(name, "it is encrypted")
        if info.compress_type not in _COMPRESSIONS:  # SECURITY: of others `zipfile` unpacks a MiB at once, into GiBs
            raise self._refused(name, "it is compressed in another way than wheels are")
        if len(self._kinds) > self._bounds.files_max:
            raise PackageTooLargeError(
                f"{self._name} holds more than {self._bounds.files_max:,} files; nothing was installed"
            )
        return self._installed(name, parts)

    def _take(self, name: str, parts: tuple[str, ...], *, is_file: bool) -> bool:
        """Note an entry; whether it is a file. Raises PackageRefusedError."""
        if parts in self._kinds and (is_file or self._kinds[parts]):
            raise self._refused(name, "it comes twice")
        if any(self._kinds.get(parts[:n]) for n in range(1, len(parts))):
            raise self._refused(name, "it is in a folder that is a file, too")
        self._kinds[parts] = is_file
        for n in range(1, len(parts)):
            self._kinds.setdefault(parts[:n], False)
        return is_file

    def _installed(self, name: str, parts: tuple[str, ...]) -> tuple[str, ...]:
        if parts[0].endswith(".data"):
            if len(parts) < 3 or parts[1] not in _INSTALLED_ROOTS:
                return ()  # scripts, headers, files for other folders
            parts = parts[2:]
        if "__pycache__" in parts:
            return ()
        if len(parts) == 1 and parts[0].endswith(".pth"):
            if parts[0] in _IGNORED_PTH:
                return ()
            raise self._refused(name, "a .pth file would run code at every start of Python")
        return parts

    def _headers(self, folder: str) -> str:
        """The headers of its METADATA, which must be of the package that was asked for."""
        try:
            info = self._archive.getinfo(f"{folder}/METADATA")
        except KeyError:
            raise self._refused("", "it has no METADATA") from None
        if info.file_size > _METADATA_BYTES_MAX:
            raise self._refused(info.orig_filename, "it is too large")
        with self._archive.open(info) as file:
            text = file.read(_METADATA_BYTES_MAX).decode(errors="replace")
        headers = text.replace("\r\n", "\n").partition("\n\n")[0][:_HEADERS_CHARS_MAX]
        said = HeaderParser().parsestr(headers)
        name, version = str(said.get("Name", "")), str(said.get("Version", "")).strip()
        if canonical_name(name) != canonical_name(self._name) or version != self._version:
            what = f"{self._name} {self._version}"
            raise self._refused("", f"it calls itself {shown(f'{name} {version}')} instead of {what}")
        return f"{headers}\n"

    def _write(self, info: zipfile.ZipInfo, parts: tuple[str, ...]) -> None:
        path = self._folder.joinpath(*parts)
        written = "/".join(parts)
        if written in self._files:
            raise self._refused(info.orig_filename, "it comes twice")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        mode = 0o644 | (info.external_attr >> 16) & 0o111
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        digest = hashlib.sha256()
        self._go_on()  # files may be empty
        with os.fdopen(fd, "wb") as target, self._archive.open(info) as source:
            os.fchmod(fd, mode)  # whatever the umask is
            while chunk := source.read(_CHUNK_BYTES):
                self._go_on()
                self._size += len(chunk)
                if self._size > self._bounds.bytes_max:
                    raise PackageTooLargeError(
                        f"{self._name} unpacks to more than the {self._bounds.bytes_max:,} bytes that a session may "
                        "install; nothing was installed",
                        remedy="raise packages_bytes_max",
                    )
                digest.update(chunk)
                target.write(chunk)
        self._files[written] = self._named["/".join(member_parts(info.orig_filename))] = digest.hexdigest()

    def _go_on(self) -> None:
        if self._given_up.is_set():
            raise InterruptedError("nobody waits for it any more")

    def _check_record(self, path: str) -> None:
        """Refuse a file whose digest is not the one that RECORD gives. A file that is not listed is as good."""
        if path not in self._files:
            return
        with (self._folder / path).open(encoding="utf-8", errors="replace", newline="") as file:
            for row in csv.reader(file):
                self._go_on()
                if len(row) < 2:
                    continue
                name, said = row[:2]
                digest, algorithm = self._named.get(name), "sha256="
                if digest is None or not said.startswith(algorithm):
                    continue
                real = base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")
                if said.removeprefix(algorithm).rstrip("=") != real:
                    raise self._refused(name, "it is not the file whose digest RECORD gives")
