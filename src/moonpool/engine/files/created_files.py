"""Files and pictures that code made, from the guest's word to what a caller is given (X-07).

The guest names files; the host bounds and checks the names. Where the sandbox goes with the execution they are fetched
into the run's artifacts while it is still there, as far as these may grow (`moonpool.engine.artifacts`); where it
stays they stay in it.

SECURITY: names are the code's. One that acts on a terminal, leads out of `/workspace` or holds a secret is counted and
not listed. Below the folder of artifacts a name is used only after that, part by part, and nothing else writes there.
INVARIANT: no file is named that was kept in part, and no trouble with files fails an execution.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from moonpool.core.created_files import MadeFile, MadeFiles, Picture, RichDisplay
from moonpool.engine.files.errors import FileTransferError
from moonpool.engine.files.local_files import Landing, is_plain
from moonpool.engine.files.service import AtRest, FileLimits, SessionFiles
from moonpool.sandboxes.shielding import in_thread
from moonpool_wire.filenames import PLACES, NameFault, split_place
from moonpool_wire.jsonbounds import exceeded_bound
from moonpool_wire.limits import BUNDLE_MIMES, BUNDLES_MAX, FILE_MADE_CHARS_MAX, FILES_MADE_MAX, PICTURES_MAX
from moonpool_wire.pictures import fits, read_facts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from moonpool.engine.artifacts import ArtifactsOfRun
    from moonpool.engine.files.records import TransferRecorder
    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.messages import Bundle, Display, Made

KEEP_S: Final = 10.0
"""How long the caller's envelope may wait for files that are kept."""

FOLDER: Final = "files"
_decode = msgspec.json.Decoder(
    list[
        tuple[Annotated[str, Meta(min_length=1, max_length=FILE_MADE_CHARS_MAX)], Annotated[int, Meta(ge=0, le=2**62)]]
    ]
).decode

_decode_forms = msgspec.json.Decoder(dict[str, str]).decode


class Claims:
    """What the guest says during one execution that it made and showed."""

    def __init__(self) -> None:
        self.pictures: list[Picture] = []
        self.displays: list[RichDisplay] = []
        self.files: tuple[tuple[str, int], ...] = ()  # path below `/workspace`, bytes
        self.count = 0
        self._received = False

    def take_picture(self, message: Display, body: bytes) -> None:
        """Keep a picture that can be shown, one of the first."""
        if len(self.pictures) < PICTURES_MAX and fits(body) and (facts := read_facts(body)) is not None:
            name = message.name if _plain_path(message.name) else ""
            self.pictures.append(Picture(data=body, mime=facts.mime, name=name))

    def take_bundle(self, message: Bundle, body: bytes) -> None:
        """Keep a value that was shown, one of the first, in the forms that are known."""
        if len(self.displays) >= BUNDLES_MAX or exceeded_bound(body, depth_max=1, containers_max=1) is not None:
            return
        try:
            forms = _decode_forms(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        known = {mime: forms[mime] for mime in BUNDLE_MIMES if mime in forms}
        if known:
            self.displays.append(RichDisplay(forms=known, is_result=message.result))

    def take_files(self, message: Made, body: bytes) -> None:
        """Take the first list; rows that cannot be read are counted only."""
        if self._received:
            return
        self._received, self.count = True, message.count
        if exceeded_bound(body, depth_max=2, containers_max=FILES_MADE_MAX + 1) is not None:
            return
        try:
            rows = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        self.files = tuple((path, size) for path, size in rows[:FILES_MADE_MAX] if _plain_path(path))


def _plain_path(path: str) -> bool:
    """Whether `path` names something below `/workspace`, as it stands."""
    try:
        place, below = split_place(path)
    except (NameFault, UnicodeEncodeError):
        return False
    return not path.startswith("/") and (place, below) == (PLACES[0], path) and path != "." and is_plain(path)


def in_sandbox(claims: Claims, blanked: Callable[[str], str]) -> MadeFiles:
    """Files of a session: they stay where they are."""
    listed = _listed(claims, blanked)
    files = tuple(MadeFile(name=path, size=size, path=f"{PLACES[0]}/{path}") for path, size in listed)
    return MadeFiles(files=files, more=max(0, claims.count - len(files)))


async def kept(
    claims: Claims, sandbox: Sandbox, room: ArtifactsOfRun, recorder: TransferRecorder, blanked: Callable[[str], str]
) -> MadeFiles:
    """Fetch the files of a sandbox that will be closed. Raises JournalError."""
    rows: list[MadeFile] = []
    problems: list[str] = []
    until = asyncio.get_running_loop().time() + KEEP_S
    for path, size in _listed(claims, blanked):
        left_s = until - asyncio.get_running_loop().time()
        why = f"fetching them took longer than {KEEP_S:g} s" if left_s <= 0 else room.grant(size)
        file: MadeFile | None = None
        if not why:
            try:
                file = await _fetched(path, room.path(FOLDER), _files(sandbox, size, left_s, recorder))
            except (FileTransferError, OSError) as error:
                why = str(error)
            finally:
                room.give_back(size - (0 if file is None else file.size))
        problems += [why] if why else []
        rows.append(file or MadeFile(name=path, size=size, path=None))
    note = blanked(f"{len(problems)} not kept: {problems[0]}") if problems else ""
    return MadeFiles(files=tuple(rows), more=max(0, claims.count - len(rows)), note=note)


async def _fetched(path: str, folder: Path, files: SessionFiles) -> MadeFile:
    target = folder.joinpath(*path.split("/"))
    fd = await in_thread(lambda: _opened(target))
    try:
        landed = Landing(fd)
        receipt = await files.get(path, landed.write)
        await landed.flush()
    except BaseException:
        await in_thread(lambda: target.unlink(missing_ok=True))
        raise
    finally:
        os.close(fd)
    return MadeFile(name=path, size=receipt.size, path=str(target))


def _opened(target: Path) -> int:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _files(sandbox: Sandbox, bytes_max: int, timeout_s: float, recorder: TransferRecorder) -> SessionFiles:
    answer_s = timeout_s / 2  # a guest that is silent is ended, which takes less than to wait until it gives up
    limits = FileLimits(file_bytes_max=bytes_max, disk_bytes_max=0, timeout_s=timeout_s, answer_s=answer_s)
    return SessionFiles(AtRest(sandbox), limits, recorder)


def _listed(claims: Claims, blanked: Callable[[str], str]) -> list[tuple[str, int]]:
    return [(path, size) for path, size in claims.files if blanked(path) == path]
