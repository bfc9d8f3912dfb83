"""The workspace: the folder on the host that an agent's files are in.

The host reads `.env` there for `${VAR}` of servers. Code gets copies of the modules in `gentools` and `mcpparse`, as
they are before each execution; pictures that it makes come to `images`.

SECURITY: symlinks, hidden names and what is no regular file are never copied: a link could lead anywhere on the host.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from moonpool.core.errors import InputError
from moonpool.ipybox.options import with_env_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from moonpool.core.created_files import Picture

MODULES: Final = ("gentools", "mcpparse")
FILES_MAX: Final = 2000
BYTES_MAX: Final = 16 * 1024**2
_KERNEL_PREFIX: Final = "KERNEL_ENV_"
_SUFFIXES: Final = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleChanges:
    """What changed since it was last looked at."""

    archive: bytes  # a tar of all modules
    gone: tuple[str, ...]  # names of files that are no longer there


@dataclass(kw_only=True)
class Workspace:
    """One folder, which is the current directory of this process."""

    root: Path
    _seen: dict[str, tuple[int, int, int]] = field(default_factory=dict[str, tuple[int, int, int]])

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What `${VAR}` of servers stands for: the environment, and what `.env` adds to it."""
        return with_env_file(environ)

    def kernel_variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The kernel's variables: those called `KERNEL_ENV_X`, as `X`."""
        return {
            name.removeprefix(_KERNEL_PREFIX): value
            for name, value in self.variables(environ).items()
            if name.startswith(_KERNEL_PREFIX) and name != _KERNEL_PREFIX
        }

    def forget(self) -> None:
        """A new kernel has no copies."""
        self._seen = {}

    def changes(self) -> ModuleChanges | None:
        """Modules that differ from the copies; None: none. Blocking. Raises InputError for too many, or too large."""
        found = {name: path for folder in MODULES for name, path in _files(self.root / folder, folder)}
        if len(found) > FILES_MAX:
            raise InputError(f"{' and '.join(MODULES)} hold more than {FILES_MAX:,} files; remove some")
        seen = {name: (status.st_mtime_ns, status.st_size, status.st_ino) for name, (_, status) in found.items()}
        if seen == self._seen:
            return None
        if sum(size for _, size, _ in seen.values()) > BYTES_MAX:
            raise InputError(f"{' and '.join(MODULES)} hold more than {BYTES_MAX // 1024**2} MiB; remove some")
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, (path, _) in sorted(found.items()):
                content = _read(path)
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), 0o644
                tar.addfile(member, io.BytesIO(content))
        gone = tuple(sorted(self._seen.keys() - seen.keys()))
        self._seen = seen
        return ModuleChanges(archive=buffer.getvalue() if found else b"", gone=gone)

    def keep(self, pictures: tuple[Picture, ...]) -> list[Path]:
        """Write pictures into `images`, under new names. Blocking. Raises OSError."""
        folder = self.root / "images"
        paths: list[Path] = []
        for picture in pictures:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{uuid4().hex}{_SUFFIXES.get(picture.mime, '.img')}"
            path.write_bytes(picture.data)
            paths.append(path)
        return paths


def _files(folder: Path, name: str) -> Iterator[tuple[str, tuple[Path, os.stat_result]]]:
    if folder.is_symlink() or not folder.is_dir():
        return
    for base, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if one != "__pycache__" and not one.startswith(".")]
        for file in files:
            path = Path(base, file)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and not file.startswith("."):
                yield f"{name}/{path.relative_to(folder)}", (path, status)


def _read(path: Path) -> bytes:
    """SECURITY: the file that was looked at, not what a link in its place leads to by now."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        return file.read(BYTES_MAX)
