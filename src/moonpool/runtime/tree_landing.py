"""An archive out of a sandbox becomes a folder here: a new one, whole or not at all.

SECURITY: nothing in the archive is trusted. Names are judged before anything is made; links come last, so that nothing
is written through one, and a link that leads out of the folder, read as text or followed, refuses the whole. No setuid,
no device, no other owner, no name that would act on a terminal. Everything is made in a closed folder of our own beside
the target, which then gets its name in one step.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import stat
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.runtime.file_errors import ArchiveRefusedError, shown
from moonpool.runtime.local_files import Landing, LocalFileError, is_plain, landing
from moonpool.runtime.tar_reader import TarEntry, TarReader
from moonpool_wire.filenames import NameFault, link_stays_inside, member_parts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


def unpack_here(archive: Path, target: Path) -> int:
    """Unpack the tar file `archive` as the new folder `target`; return how many entries there were. Blocking.

    Raises ArchiveRefusedError, LocalFileError.
    """
    if os.path.lexists(target):
        raise LocalFileError(f"{target} is there already; name a folder that is not")
    passing = target.with_name(f".moonpool-{secrets.token_hex(8)}.part")
    try:
        passing.mkdir(mode=0o700)
        try:
            with archive.open("rb") as file:
                tree = _Tree(passing)
                tree.fill(TarReader(file))
            passing.chmod(0o755)
            passing.rename(target)
        except BaseException:
            shutil.rmtree(passing, ignore_errors=True)
            raise
    except OSError as error:
        raise LocalFileError(f"{target}: {(error.strerror or 'it cannot be written').lower()}") from None
    return len(tree.kinds)


class _Tree:
    """The folder that is being filled."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self.kinds: dict[tuple[str, ...], str] = {}
        self._links: list[tuple[tuple[str, ...], str]] = []

    def fill(self, reader: TarReader) -> None:
        for entry in reader.entries():
            try:
                self._take(entry, reader)
            except NameFault as fault:
                raise ArchiveRefusedError(
                    f"{shown(entry.name)}: {fault}; fetch the archive as a file instead"
                ) from None
        for parts, target in self._links:
            self._top.joinpath(*parts).symlink_to(target)
        self._check_links()

    def _take(self, entry: TarEntry, reader: TarReader) -> None:
        parts = member_parts(entry.name)
        if not is_plain(entry.name):
            raise NameFault("a name that is no plain text")
        if not parts or parts in self.kinds or any(self.kinds.get(parts[:n]) != "folder" for n in range(1, len(parts))):
            raise NameFault("it comes twice, or before its folder")
        path = self._top.joinpath(*parts)
        if entry.kind == "folder":
            path.mkdir(mode=0o755)
        elif entry.kind == "file":
            self._write(path, entry, reader)
        elif entry.kind == "hardlink":
            source = member_parts(entry.target)
            if self.kinds.get(source) != "file":
                raise NameFault("a hard link to what is no file of this archive")
            os.link(self._top.joinpath(*source), path, follow_symlinks=False)
        elif not link_stays_inside(parts, entry.target):
            raise NameFault("a link that leads out")
        else:
            self._links.append((parts, entry.target))
        self.kinds[parts] = entry.kind

    def _write(self, path: Path, entry: TarEntry, reader: TarReader) -> None:
        mode = 0o644 | entry.mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "wb") as file:
            for chunk in reader.content():
                file.write(chunk)

    def _check_links(self) -> None:
        top = os.path.realpath(self._top)
        for parts, _ in self._links:
            if not (os.path.realpath(self._top.joinpath(*parts)) + "/").startswith(f"{top}/"):
                raise ArchiveRefusedError(f"{shown('/'.join(parts))}: a link that leads out")


@asynccontextmanager
async def landing_tree(target: Path) -> AsyncGenerator[Landing]:
    """Yield a file for a tar stream; when the block ends without an error it is unpacked as the new folder `target`."""
    if await asyncio.to_thread(os.path.lexists, target):
        raise LocalFileError(f"{target} is there already; name a folder that is not")
    with tempfile.TemporaryDirectory(prefix="moonpool-", ignore_cleanup_errors=True) as folder:
        archive = Path(folder) / "tree.tar"
        async with landing(archive, force=False) as file:
            yield file
        await asyncio.to_thread(unpack_here, archive, target)
