"""An attack from a sandbox with folders of this machine, which the host judges: what code left in them."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.doctor.probes.judging import judge, trouble
from moonpool.doctor.probes.record import AnyProbe, Finding, HostProbe, UnavailableError
from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.folder_binding import ATTACHING
from moonpool.sandboxes.host_folders import FolderError, HostFolder, HostFolders

if TYPE_CHECKING:
    from moonpool.doctor.probes.record import Stage

_PLACE: Final = "/var/tmp"  # noqa: S108  `/tmp` is the sandbox's own
_SECRETS: Final = (".env", "server.pem", "deep/id_rsa")
_TRY: Final = """
def create(path, mode=0o644):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
os.chdir(WORK)
create("new")
if os.stat("new").st_uid != os.getuid() or open("given").read() != "of the host":
    note("the folder is not this user's to read and write")
for name in SECRETS:
    attempt(f"read {name}", lambda: read(name), "EACCES")
    attempt(f"replace {name}", lambda: os.rename("new", name), "EBUSY", "EXDEV")  # a mount of its own lies between
    attempt(f"remove {name}", lambda: os.unlink(name), "EBUSY")
attempt("hook", lambda: create(".git/hook"), "EROFS")
attempt("move .git", lambda: os.rename(".git", "git"), "EBUSY")
attempt("write an import", lambda: create(IMPORTS + "/new"), "EROFS")
attempt("change an import", lambda: write(IMPORTS + "/given", "x"), "EROFS")
attempt("setuid", lambda: os.chmod("new", 0o4755), "EPERM")
born = os.open("born", os.O_WRONLY | os.O_CREAT, 0o4755)  # with its first byte it loses the bit: the host looks
os.write(born, b"#!/bin/sh")
attempt("device", lambda: os.mknod("disk", 0o666 | stat.S_IFBLK, os.makedev(254, 0)), "EPERM")
attempt("a socket of the host", lambda: socket.socket(socket.AF_UNIX), "EAFNOSUPPORT")
if set(os.listdir("..")) - {"work", "imports"}:
    note(f"beside the folders are {os.listdir('..')}")
"""


async def _guards(stage: Stage) -> Finding:
    """One folder to work in and one to import from: rights, guarded names, and whose the new files are."""
    with tempfile.TemporaryDirectory(prefix="moonpool-doctor-", dir=_PLACE) as made:
        folder = Path(made).resolve()  # noqa: ASYNC240  the doctor serves nobody else meanwhile
        work, imports = await asyncio.to_thread(_fill, folder)
        shown = HostFolders((HostFolder(work, writable=True), HostFolder(imports, writable=False)))
        try:
            sandbox = await stage.open_sandbox(folders=shown)
        except (FolderError, SandboxStartError) as error:
            is_start = isinstance(error, SandboxStartError)
            if is_start and error.step != ATTACHING:
                raise  # SECURITY: what says nothing about folders leaves the claim unproved
            why = error.reason if is_start else str(error)
            raise UnavailableError(
                f"no folder can be attached here: {why}; root needs a file system with id-mapped mounts, so run "
                "Moonpool as the owner of the folders instead"
            ) from None
        program = f"WORK, IMPORTS, SECRETS = {str(work)!r}, {str(imports)!r}, {_SECRETS!r}\n{_TRY}"
        heard = await stage.run(sandbox, program)
        await sandbox.close()  # before the folder goes
        if found := trouble(heard):
            return found
        problem = await asyncio.to_thread(_problem, work)
    return Finding(blocked=False, detail=f"{problem}; attach no folder here") if problem else judge(heard)


def _fill(folder: Path) -> tuple[Path, Path]:
    work, imports = folder / "work", folder / "imports"
    for path in (work / "deep", work / ".git", imports, folder / "beside"):
        path.mkdir(parents=True)
    for path in (work / "given", imports / "given", *(work / name for name in _SECRETS)):
        path.write_text("of the host", encoding="utf-8")
    return work, imports


def _problem(work: Path) -> str:
    """What code did that it may not; empty: nothing."""
    own = (os.geteuid(), os.getegid())
    new = (work / "new").stat()
    if (new.st_uid, new.st_gid) != own:
        return f"a new file belongs to {new.st_uid}:{new.st_gid} instead of the owner of the folder"
    if any((work / name).read_text(encoding="utf-8") != "of the host" for name in _SECRETS):
        return "a guarded file was changed"
    if any(path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID) for path in work.rglob("*") if path.is_file()):
        return "a set-user-id program was left"
    return ""


FOLDERS: Final[tuple[AnyProbe, ...]] = (
    HostProbe(
        probe_id="folder-guards",
        claim="C-FOLD-1",
        title="with folders attached: read credentials, write imports or hooks, look beside, leave a setuid program",
        play=_guards,
    ),
)
