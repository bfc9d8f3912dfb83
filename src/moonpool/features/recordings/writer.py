"""Writer of recordings: a thread of its own, behind a queue, that waits a moment for more and commits it together.

Nothing of it is on an execution's way: handing a part over costs some microseconds, and what costs more (redacting,
encoding, sealing, SQLite) is done here, a moment later. So a host that is killed loses the last moment of a recording.

INVARIANT: nothing here raises into an execution or waits for the disk. What cannot be recorded is told to the
operator's log, and the recording says why it cannot be replayed.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from moonpool.features.recordings.model import RUN_BYTES_MAX, NotReplayable, RunEnd
from moonpool.features.recordings.table import RecordingsFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from moonpool.features.recordings.model import Part, RecordingRef, RunHeader, SharedPart
    from moonpool.store.sealing import Sealer

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

LINGER_S: Final = 0.05
_WAITING_MAX: Final = 4096
_AT_ONCE_MAX: Final = 256
_TIDY_EVERY: Final = 200  # recordings
_TIDY_SHARE: Final = 8  # or when an eighth of the room was written: large ones must not wait for their number


class _Begin(NamedTuple):
    ref: RecordingRef
    digest: str
    make_shared: Callable[[], SharedPart]
    make: Callable[[], RunHeader]


class _Add(NamedTuple):
    run_id: str
    make: Callable[[], Part]


class _Open:
    """A recording that goes on."""

    __slots__ = ("bytes", "number")

    def __init__(self) -> None:
        self.number, self.bytes = 0, 0


class RecordingWriter:
    """The `Recordings` of a running Moonpool."""

    def __init__(
        self,
        path: Path,
        sealer: Sealer,
        *,
        days: float,
        bytes_max: int,
        take: Callable[[int], str] = lambda _: "",
    ) -> None:
        """`take` counts bytes against the bound above all tenants, or says why they may not be written."""
        self._path, self._sealer, self._days, self._bytes_max = path, sealer, days, bytes_max
        self._take = take
        self._queue: queue.SimpleQueue[_Begin | _Add | None] = queue.SimpleQueue()
        self._lost: set[str] = set()  # runs whose parts did not fit into the queue
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        # The thread's own:
        self._open: dict[str, _Open] = {}
        self._until_tidy = 1
        self._untidied_bytes = 0
        self._broken = False

    def begin(
        self, ref: RecordingRef, shared: tuple[str, Callable[[], SharedPart]], make: Callable[[], RunHeader]
    ) -> None:
        """See `moonpool.features.recordings.model.Recordings`."""
        if self._thread is None:
            thread = threading.Thread(target=self._write, name="moonpool-recordings", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the machine lets us start no more: executions go on
                _log.warning("an execution is not recorded: %s", error)
                return
            self._thread = thread
        self._put(ref.run_id, _Begin(ref, shared[0], shared[1], make))

    def add(self, run_id: str, make: Callable[[], Part]) -> None:
        """See `moonpool.features.recordings.model.Recordings`."""
        self._put(run_id, _Add(run_id, make))

    def close(self) -> None:
        """Write what was handed over. Blocking."""
        if self._thread is not None:
            self._closing.set()
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _put(self, run_id: str, item: _Begin | _Add) -> None:
        if self._thread is None:
            return  # its beginning was not recorded either
        if self._queue.qsize() >= _WAITING_MAX:
            self._lost.add(run_id)
        else:
            self._queue.put(item)

    def _write(self) -> None:
        """The thread: take one, wait for more, commit; until the end mark."""
        file: RecordingsFile | None = None
        running = True
        while running:
            batch = [self._queue.get()]
            if batch[0] is not None:
                self._closing.wait(LINGER_S)
            while len(batch) < _AT_ONCE_MAX and not self._queue.empty():  # this thread is the only taker
                batch.append(self._queue.get())
            running = None not in batch
            items = [item for item in batch if item is not None]
            if self._broken or not items:
                continue
            try:
                file = file or RecordingsFile(self._path, self._sealer)
                self._commit(file, items)
            except Exception as error:  # noqa: BLE001  whatever it is: executions go on, the operator is told once
                self._broken = True
                _log.warning("executions are not recorded from now on: %s", error)
        if file is not None:
            file.close()

    def _commit(self, file: RecordingsFile, items: list[_Begin | _Add]) -> None:
        with file.transaction():
            for item in items:
                if isinstance(item, _Begin):
                    self._begin(file, item)
                elif item.run_id in self._open:
                    self._add(file, item)
        if self._until_tidy <= 0 or self._untidied_bytes * _TIDY_SHARE > self._bytes_max:
            file.tidy(days=self._days, bytes_max=self._bytes_max)
            self._until_tidy, self._untidied_bytes = _TIDY_EVERY, 0

    def _begin(self, file: RecordingsFile, item: _Begin) -> None:
        run_id = item.ref.run_id
        file.add_run(item.ref, item.digest)
        self._until_tidy -= 1
        state = self._open[run_id] = _Open()
        try:
            if not file.has_shared(item.digest):
                file.add_shared(item.digest, _made(item.make_shared))
            self._count(state, file.add_part(run_id, 0, _made(item.make)))
        except NotReplayable as why:
            self._give_up(file, run_id, str(why))

    def _add(self, file: RecordingsFile, item: _Add) -> None:
        state = self._open[item.run_id]
        try:
            if item.run_id in self._lost:
                self._lost.discard(item.run_id)
                raise NotReplayable("parts of its recording were lost, because more came than could be written")
            part = _made(item.make)
            size = file.add_part(item.run_id, state.number, part)
            if not size:  # somebody removed the recording, or it made room for others
                del self._open[item.run_id]
                return
            self._count(state, size)
        except NotReplayable as why:
            self._give_up(file, item.run_id, str(why))
        else:
            if isinstance(part, RunEnd):
                del self._open[item.run_id]

    def _count(self, state: _Open, size: int) -> None:
        state.number += 1
        state.bytes += size
        self._untidied_bytes += size
        if state.bytes > RUN_BYTES_MAX:
            raise NotReplayable(f"its recording is larger than {RUN_BYTES_MAX // 1024**2} MiB")
        if problem := self._take(size):
            raise NotReplayable(problem)

    def _give_up(self, file: RecordingsFile, run_id: str, why: str) -> None:
        self._open.pop(run_id, None)
        file.give_up(run_id, why)


def _made(make: Callable[[], _T]) -> _T:
    """The part. A bug in making it costs this recording, no other."""
    try:
        return make()
    except NotReplayable:
        raise
    except Exception as error:  # noqa: BLE001  its text may hold what is recorded, so only its type is told
        _log.warning("an execution is not recorded: %s", type(error).__name__)
        raise NotReplayable(f"recording it failed ({type(error).__name__}); this is a bug in Moonpool") from None
