"""One change of the library at a time, carried out so that the library and its records agree whenever a process dies.

Under the library's lock:

1. a note names the change, with the digest that the entry will have;
2. its intent is put on record, on the disk;
3. the former file is kept aside, and the new one renamed into its place;
4. its outcome is put on record; then what was kept aside goes, and at last the note.

What fails at 3 or 4 is taken back from what was kept aside, and that is put on record.

INVARIANT: nothing is in the library that is not on record. A note that somebody finds under the lock is of a process
that died: the entry's digest tells whether its change was made, and that is put on record before anything else is
changed. So every intent has one outcome, and nobody's later change is taken back with an earlier one.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError, MoonpoolError
from moonpool.features.library.model.change import INTERRUPTED, LibraryChange
from moonpool.store.private_files import StoreFolderError, read_own_file, replace_private_file, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from moonpool.features.library.model.change import LibraryObserver

_NOTE: Final = ".change"
_ASIDE: Final = ".before"
_NOTE_BYTES_MAX: Final = 16 * 1024


class ChangesInHand:
    """Carries out changes of the library in `folder`. Methods but `waiting` are called under its lock."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._note, self._aside = folder, folder / _NOTE, folder / _ASIDE

    def waiting(self) -> bool:
        """Whether a change is being made, or was not finished."""
        return os.path.lexists(self._note)

    def carry_out(self, change: LibraryChange, path: Path, content: bytes | None, records: LibraryObserver) -> None:
        """Make `content` the file at `path`; None removes it. Raises OSError and what `records` raises."""
        assert not self.waiting(), "the last change was settled"
        existed = os.path.lexists(path)
        if existed and stat.S_ISDIR(path.lstat().st_mode):
            raise IsADirectoryError(errno.EISDIR, f"{path} is a folder; remove it yourself")
        replace_private_file(self._note, json.dumps(change.to_json()).encode(), durable=True)
        try:
            records.begins(change)
        except BaseException:
            with suppress(OSError):  # then it is settled as one that was not made
                self._forget()
            raise
        try:
            if existed:
                self._set_aside(path, stays=content is not None)
            if content is not None:
                replace_private_file(path, content, durable=True)
            else:
                sync_folder(path.parent)
            records.ended(change)
        except BaseException as error:
            self._take_back(path, existed=existed)
            why = error.code if isinstance(error, MoonpoolError) else StoreFolderError.code
            with suppress(MoonpoolError, OSError):  # then it is settled
                records.ended(change, error_type=why)
                self._forget()
            raise
        self._forget()

    def settle(
        self,
        path_of: Callable[[LibraryChange], Path],
        digest_of: Callable[[LibraryChange], str],
        records: LibraryObserver,
    ) -> LibraryChange | None:
        """Put on record what came of a change whose process died, if there is one.

        `path_of` is where its entry is, `digest_of` what is there now: empty if nothing is that can be used. Raises
        OSError, StoreFolderError and what `records` raises; then it is tried again next time.
        """
        if not self.waiting():
            return None
        change = self._read()
        path = path_of(change)
        gone = not os.path.lexists(path)
        made = gone if change.action == "removed" else digest_of(change) == change.after_digest
        if gone and not made and os.path.lexists(self._aside):
            self._aside.replace(path)
            sync_folder(path.parent)
        if not records.has_ended(change):  # else only the note was left
            records.ended(change, error_type="" if made else INTERRUPTED, settled=True)
        self._forget()
        return change

    def _set_aside(self, path: Path, *, stays: bool) -> None:
        """Keep the former file; where it can be read, readers find it until the new one is in its place."""
        self._aside.unlink(missing_ok=True)
        if stays and stat.S_ISREG(path.lstat().st_mode):
            self._aside.hardlink_to(path)
        else:
            path.rename(self._aside)

    def _take_back(self, path: Path, *, existed: bool) -> None:
        if not existed:
            path.unlink(missing_ok=True)
        elif os.path.lexists(self._aside):
            self._aside.replace(path)
        sync_folder(path.parent)

    def _forget(self) -> None:
        self._aside.unlink(missing_ok=True)  # still there after a rename onto another name of the same file
        self._note.unlink(missing_ok=True)
        sync_folder(self._folder)

    def _read(self) -> LibraryChange:
        try:
            return LibraryChange.from_json(json.loads(read_own_file(self._note, bytes_max=_NOTE_BYTES_MAX)))
        except (InputError, ValueError, RecursionError):
            raise StoreFolderError(
                f"{self._note} is damaged, so what became of the last change of the library is not known; look at "
                "`moonpool actions list` and `moonpool skills list`, then remove that file"
            ) from None
