"""What is kept of what code prints: three sizes (DESIGN §3).

All of it streams to observers; the envelope keeps the head and the tail; what exceeds that goes to an artifact file as
a whole, as long as `moonpool.engine.artifacts` grants it room. More than a stream may hold ends the execution.

SECURITY: every byte passes the redactor first; nothing else here sees the text.
INVARIANT: `feed` never raises, whatever the disk or an observer does, and also after the end: who feeds is the event
loop, which has bytes of the channel in its hand.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

_log = logging.getLogger(__name__)


class ChunkRedactor(Protocol):
    """Redacts a stream of chunks; a secret cut in two is held back until it is whole."""

    def feed(self, chunk: bytes) -> bytes: ...
    def finish(self) -> bytes: ...


class ArtifactRoom(Protocol):
    """What an artifact may take (`moonpool.engine.artifacts.ArtifactsOfRun`)."""

    def path(self, name: str) -> Path:
        """Where an artifact of this name lies."""
        ...

    def grant(self, count: int) -> str:
        """Count bytes that are about to be written; or say why they may not be."""
        ...

    def give_back(self, count: int) -> None:
        """The file is gone."""
        ...


class StreamKeeper:
    """Keeps one stream of one execution."""

    def __init__(
        self,
        redactor: ChunkRedactor,
        *,
        kept_bytes_max: int,
        name: str,
        artifact_bytes_max: int,
        room: ArtifactRoom,
        observer: Callable[[bytes], None] | None,
        names_artifact: bool = True,
    ) -> None:
        """`names_artifact`: whoever gets the text may know where it lies."""
        self._redactor = redactor
        self._kept_bytes_max = kept_bytes_max
        self._name = name  # of its artifact
        self._artifact_bytes_max = artifact_bytes_max
        self._room = room
        self._observer, self._names_artifact = observer, names_artifact
        self._artifact: BinaryIO | None = None
        self._granted = 0  # bytes that the artifact has, or was to have
        self._finished = False
        self._unwritable = ""  # why the artifact does not hold everything
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0
        self.overflowed = False

    @property
    def _artifact_path(self) -> Path:
        return self._room.path(self._name)

    @property
    def exceeds(self) -> bool:
        """Whether there is more than the envelope keeps, and so an artifact."""
        return self.total_bytes > self._kept_bytes_max

    def feed(self, data: bytes) -> None:
        """Take bytes as the guest wrote them. Nothing is taken after `finish`."""
        if not self._finished:
            self._keep(self._redactor.feed(data))

    def finish(self) -> None:
        """Nothing more will come. Idempotent."""
        if self._finished:
            return
        self._keep(self._redactor.finish())
        self._finished = True
        if self._artifact is not None:
            self._artifact.close()
            if not self._artifact_path.exists():
                self._unwritable = "it was removed for those of other executions"

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        room = self._artifact_bytes_max - self.total_bytes
        if len(data) > room:
            self.overflowed = True
            data = data[: max(0, room)]
        self.total_bytes += len(data)
        if self.exceeds and not self._unwritable:
            self._write(data if self._artifact is not None else bytes(self._head) + data)
        self._keep_ends(data)
        if data:
            self._show(data)

    def _show(self, data: bytes) -> None:
        if self._observer is not None:
            try:
                self._observer(data)
            except Exception:  # noqa: BLE001
                self._observer = None
                _log.exception("the receiver of an execution's output failed, and gets no more of it")

    def _write(self, data: bytes) -> None:
        """INVARIANT: a full disk, or a quota, loses the artifact, never the execution."""
        if why := self._room.grant(len(data)):
            self._give_up(why)
            return
        self._granted += len(data)
        try:
            if self._artifact is None:
                self._artifact_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._artifact = self._artifact_path.open("wb", buffering=0)
            _write_all(self._artifact, data)
        except OSError as error:
            self._give_up(error.strerror or "the disk failed")

    def _give_up(self, why: str) -> None:
        """Keep no artifact. A part of one is removed: it would be taken for the whole, and takes room."""
        self._unwritable = why
        try:
            if self._artifact is not None:
                self._artifact.close()
                self._artifact_path.unlink(missing_ok=True)
                self._artifact_path.parent.rmdir()  # unless the other stream's is there
        except OSError as error:
            if self._artifact_path.exists():
                _log.warning("a part of an artifact could not be removed: %s", error.strerror)
        self._artifact = None
        self._room.give_back(self._granted)
        self._granted = 0

    def _keep_ends(self, data: bytes) -> None:
        room = self._kept_bytes_max - len(self._head)
        self._head += data[: max(0, room)]
        rest = data[max(0, room) :]
        if rest:
            self._tail += rest
            if len(self._tail) > self._kept_bytes_max:
                del self._tail[: len(self._tail) - self._kept_bytes_max]

    def text(self) -> str:
        """The whole stream, or its head and tail with a note between them; at most `kept_bytes_max` bytes of UTF-8."""
        if self.total_bytes <= self._kept_bytes_max:
            return _text(bytes(self._head))
        if self._unwritable:
            rest = f"it could not be kept: {self._unwritable}"
        else:
            rest = f"all of it: {self._artifact_path}" if self._names_artifact else "write it to a file instead"
        note = f"\n[... of {self.total_bytes:,} bytes the middle is left out; {rest} ...]\n"
        ends = self._kept_bytes_max - len(note.encode())
        if ends < 2:
            return note.encode()[: self._kept_bytes_max].decode(errors="ignore")
        tail = bytes(self._head + self._tail)[-(ends // 2) :]
        head = bytes(self._head[: ends - ends // 2])
        return _cut(head) + note + _cut_start(tail)

    def last_line(self) -> bytes | None:
        """The last line that is not blank, if all of it was kept."""
        kept = bytes(self._tail or self._head).rstrip()
        before, newline, line = kept.rpartition(b"\n")
        del before
        whole = bool(newline) or self.total_bytes <= self._kept_bytes_max
        return line.strip() if line.strip() and whole else None


def _write_all(file: BinaryIO, data: bytes) -> None:
    """An unbuffered file may take a part only, when the disk is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _text(data: bytes) -> str:
    """UTF-8 with every byte that is none replaced by `?`, which is not longer than the byte it stands for."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").replace("\N{REPLACEMENT CHARACTER}", "?")


def _cut(data: bytes) -> str:
    """Text of a head that may end inside a character."""
    for dropped in range(min(4, len(data))):
        try:
            return data[: len(data) - dropped].decode()
        except UnicodeDecodeError:
            continue
    return _text(data)


def _cut_start(data: bytes) -> str:
    """Text of a tail that may begin inside a character."""
    while data and data[0] & 0xC0 == 0x80:
        data = data[1:]
    return _text(data)
