"""An archive out of a sandbox becomes a folder here: a new one, whole or not at all.

SECURITY: nothing in the archive is trusted. Names are judged before anything is made; links come last, so that nothing
is written through one, and a link that leads out of the folder, read as text or followed, refuses the whole. No setuid,
no device, no other owner, no name that would act on a terminal. Everything is made in a closed folder of our own beside
the target, which then gets its name in one step: not any more once the caller was cancelled.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import stat
import tempfile
import threading
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.engine.files.archive_links import ArchiveLinks
from moonpool.engine.files.errors import ArchiveRefusedError, shown
from moonpool.engine.files.local_files import Landing, LocalFileError, is_plain, landing
from moonpool.engine.files.tar_reader import TarEntry, TarReader
from moonpool.sandboxes.shielding import in_thread
from moonpool_wire.filenames import NameFault, link_stays_inside, member_parts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator


class _GivenUpError(Exception):
    """Whoever wanted the folder was cancelled."""


async def unpack_here(archive: Path, target: Path) -> int:
    """Unpack the tar file `archive` as the new folder `target`; return how many entries there were.

    Raises ArchiveRefusedError, LocalFileError.
    """
    if await asyncio.to_thread(os.path.lexists, target):
        raise LocalFileError(f"{target} is there already; name a folder that is not")
    tree = _Tree(target.with_name(f".moonpool-{secrets.token_hex(8)}.part"))
    try:
        try:
            count = await in_thread(lambda: tree.fill(archive), given_up=tree.given_up)
            tree.top.rename(target)  # in the event loop's own thread: no cancellation can come after it is published
        except BaseException:
            await in_thread(lambda: shutil.rmtree(tree.top, ignore_errors=True))
            raise
    except OSError as error:
        raise LocalFileError(f"{target}: {(error.strerror or 'it cannot be written').lower()}") from None
    return count


class _Tree:
    """The folder `top` that is being filled. Blocking; setting `given_up` ends it soon."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.given_up = threading.Event()
        self._kinds: dict[tuple[str, ...], str] = {}
        self._links: list[tuple[tuple[str, ...], str]] = []

    def fill(self, archive: Path) -> int:
        """Make the folder with everything in it; return how many entries there are."""
        self.top.mkdir(mode=0o700)
        with archive.open("rb") as file:
            reader = TarReader(file)
            for entry in reader.entries():
                self._go_on()
                with _judging(entry.name):
                    self._take(entry, reader)
        self._check_links()
        for parts, text in self._links:
            self._go_on()
            self.top.joinpath(*parts).symlink_to(text)
        self.top.chmod(0o755)
        return len(self._kinds)

    def _go_on(self) -> None:
        if self.given_up.is_set():
            raise _GivenUpError

    def _take(self, entry: TarEntry, reader: TarReader) -> None:
        parts = member_parts(entry.name)
        if not is_plain(entry.name):
            raise NameFault("a name that is not a plain string")
        above = (self._kinds.get(parts[:n]) for n in range(1, len(parts)))
        if not parts or parts in self._kinds or any(kind != "folder" for kind in above):
            raise NameFault("it comes twice, or before its folder")
        path = self.top.joinpath(*parts)
        if entry.kind == "folder":
            path.mkdir(mode=0o755)
        elif entry.kind == "file":
            self._write(path, entry, reader)
        elif entry.kind == "hardlink":
            source = member_parts(entry.target)
            if self._kinds.get(source) != "file":
                raise NameFault("a hard link to what is no file of this archive")
            os.link(self.top.joinpath(*source), path, follow_symlinks=False)
        elif not link_stays_inside(parts, entry.target):
            raise NameFault("a link that leads out")
        else:
            self._links.append((parts, entry.target))
        self._kinds[parts] = entry.kind

    def _write(self, path: Path, entry: TarEntry, reader: TarReader) -> None:
        mode = 0o644 | entry.mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "wb") as file:
            for chunk in reader.content():
                self._go_on()
                file.write(chunk)

    def _check_links(self) -> None:
        links = ArchiveLinks()
        for parts in self._kinds:
            links.add(parts)
        for parts, text in self._links:
            links.add(parts, text)
        for parts, _ in self._links:
            self._go_on()
            with _judging("/".join(parts)):
                links.check(parts)


@contextmanager
def _judging(name: str) -> Generator[None]:
    try:
        yield
    except NameFault as fault:
        raise ArchiveRefusedError(f"{shown(name)}: {fault}; fetch the archive as a file instead") from None


@asynccontextmanager
async def landing_tree(target: Path) -> AsyncGenerator[Landing]:
    """Yield a file for a tar stream; when the block ends without an error it is unpacked as the new folder `target`."""
    if await asyncio.to_thread(os.path.lexists, target):
        raise LocalFileError(f"{target} is there already; name a folder that is not")
    with tempfile.TemporaryDirectory(prefix="moonpool-", ignore_cleanup_errors=True) as folder:
        archive = Path(folder) / "tree.tar"
        async with landing(archive, force=False) as file:
            yield file
        await unpack_here(archive, target)
