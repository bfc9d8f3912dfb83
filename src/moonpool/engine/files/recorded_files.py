"""What is done to a session's files from outside between its executions, kept for a replay that must do it as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.features.recordings.model import CONTENT_BYTES_MAX, RecordedInput
from moonpool.sandboxes.messages import FileDelete, FileMkdir, FilePut, FileUnpack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moonpool.engine.files.streams import Source
    from moonpool.sandboxes.messages import FileOpening

_INPUTS_MAX: Final = 256
_TOO_LARGE: Final = f"more than {CONTENT_BYTES_MAX // 1024**2} MiB"


class InputKeeper:
    """What is done to a session's files between its executions, for the recording of the next one."""

    def __init__(self) -> None:
        self._inputs: list[RecordedInput] = []
        self._sandbox_id = ""
        self._bytes = 0

    def keep(self, sandbox_id: str, done: RecordedInput) -> None:
        """It was done in this sandbox."""
        if sandbox_id != self._sandbox_id:
            self._inputs, self._sandbox_id, self._bytes = [], sandbox_id, 0
        self._bytes += len(done.content)
        if self._bytes > 2 * CONTENT_BYTES_MAX:
            self._bytes -= len(done.content)
            done = _without_content(done)
        if len(self._inputs) < _INPUTS_MAX:
            self._inputs.append(done)
        else:
            self._inputs[-1] = RecordedInput(what=done.what, path=done.path, missing="one of too many to be kept")

    def take(self, sandbox_id: str) -> tuple[RecordedInput, ...]:
        """All that was done in this sandbox since the last execution."""
        inputs, self._inputs, self._bytes = self._inputs, [], 0
        return tuple(inputs) if sandbox_id == self._sandbox_id else ()


def _without_content(done: RecordedInput) -> RecordedInput:
    return RecordedInput(what=done.what, path=done.path, missing=_TOO_LARGE)


def recorded_input(opening: FileOpening, copy: Copy | None) -> RecordedInput | None:
    """What was done, if it changed anything."""
    content = copy.content if copy is not None else b""
    missing = "" if copy is None or copy.complete else _TOO_LARGE
    match opening:
        case FilePut():
            return RecordedInput(
                what="file",
                path=opening.path,
                content=content,
                mode=opening.mode,
                replace=opening.replace,
                missing=missing,
            )
        case FileUnpack():
            return RecordedInput(
                what="archive",
                path=opening.path,
                content=content,
                form=opening.form,
                replace=opening.replace,
                missing=missing,
            )
        case FileMkdir():
            return RecordedInput(what="folder", path=opening.path)
        case FileDelete():
            return RecordedInput(what="removal", path=opening.path, recursive=opening.recursive)
        case _:
            return None


class Copy:
    """A source that keeps what passes, as far as it is kept at all."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._kept = bytearray()
        self.complete = True

    @property
    def content(self) -> bytes:
        return bytes(self._kept)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._source:
            if self.complete and len(self._kept) + len(chunk) <= CONTENT_BYTES_MAX:
                self._kept += chunk
            else:
                self.complete = False
                self._kept.clear()
            yield chunk
