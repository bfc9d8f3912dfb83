"""The nondeterminism log of one execution: its readings of clocks and randomness, recorded, replayed, or both.

Readings are kept per kind (`KINDS`), each kind in its own order: so the undefined order among threads and an event loop
does not matter. Recorded readings are served until code reads a kind more often than it was recorded, or asks for
another number of bytes. That first difference is reported, and all later readings are real; monotonic clocks continue
from their last replayed value.

Form: `MT1`, a byte of flags (1: incomplete), then, if anything was read, a zlib stream of blocks. A block is the kind
(a byte), the number of readings (u32) and the readings: numbers as differences (i64), or the sizes (u32) of pieces of
bytes and the pieces. All little-endian.

INVARIANT: a log never ends the code. One that cannot be read, or that is full, is reported; the code goes on.
"""

import operator
import struct
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from typing import Any

from moonpool_wire.limits import DIVERGENCE_CHARS_MAX, NONDETERMINISM_BYTES_MAX

KINDS = (  # INVARIANT: only ever appended to; a log holds their numbers
    "the start's randomness",
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.process_time",
    "time.process_time_ns",
    "time.thread_time",
    "time.thread_time_ns",
    "time.clock_gettime",
    "time.clock_gettime_ns",
    "time.localtime",
    "time.gmtime",
    "time.ctime",
    "time.asctime",
    "time.strftime",
    "datetime.now",
    "datetime.utcnow",
    "date.today",
    "random.seed",
    "os.urandom",
    "os.getrandom",
    "uuid.uuid1",
)
START = 0
_PIECES = frozenset(map(KINDS.index, (KINDS[START], "random.seed", "os.urandom", "os.getrandom", "uuid.uuid1")))
_STEADY = {  # clocks that share a counter which never goes back
    KINDS.index(f"time.{name}{unit}"): "monotonic" if name == "perf_counter" else name
    for name in ("monotonic", "perf_counter", "process_time", "thread_time")
    for unit in ("", "_ns")
}
_MAGIC, _INCOMPLETE = b"MT1", 1
_BLOCK = struct.Struct("<BI")
_STORED, _SIZES, _SUM = struct.Struct(">HB"), struct.Struct("<HH"), struct.Struct(">I")  # RFC 1950, RFC 1951
_STORED_BYTES_MAX = 256
_ROOM = NONDETERMINISM_BYTES_MAX - 4096  # readings before compression, which adds a few bytes at worst
_FURTHEST = 2**62  # nanoseconds: beyond them `datetime` and `array` raise
_NUMBER_BYTES = 8
_PIECE_BYTES = 4


class NondeterminismLog:
    """Records if `record`; replays `played` if it is given."""

    def __init__(self, *, record: bool, played: "bytes | None" = None) -> None:
        self._recording = record
        self._room = _ROOM if record else 0
        self._complete = True
        self._numbers: dict[int, array[int]] = {}
        self._pieces: dict[int, list[bytes]] = {}
        self._player = None if played is None else _Player(played)

    def seeds(self, *, fresh: bool) -> bool:
        """Whether `random` starts anew: in a `fresh` kernel, where no code has run. A replayed log says so itself."""
        return (self._recording and fresh) if self._player is None else self._player.has(START)

    def number(self, kind: int, read: Callable[[], int]) -> int:
        """The next number of `kind`; `read` reads a real one."""
        value = read() if self._player is None else self._player.number(kind, read)
        if self._room >= _NUMBER_BYTES:
            self._room -= _NUMBER_BYTES
            try:
                self._numbers[kind].append(value)
            except KeyError:
                self._numbers.setdefault(kind, array("q")).append(value)
        else:
            self._stop()
        return value

    def piece(self, kind: int, size: int, read: Callable[[int], bytes]) -> bytes:
        """The next `size` bytes of `kind`."""
        value = read(size) if self._player is None else self._player.piece(kind, size, read)
        taken = len(value) + _PIECE_BYTES
        if self._room >= taken:
            self._room -= taken
            self._pieces.setdefault(kind, []).append(value)
        else:
            self._stop()
        return value

    def _stop(self) -> None:
        if self._recording:
            self._room, self._complete = 0, False

    def finish(self) -> "tuple[bytes, str]":
        """What was recorded, and where the code first diverged from the replayed log."""
        divergence = self._player.finish() if self._player is not None else ""
        return self._encode() if self._recording else b"", divergence[:DIVERGENCE_CHARS_MAX]

    def _encode(self) -> bytes:
        # Threads of the code may still read: what is copied in one step is whole. And two of them may have counted
        # one reading, so what fits is counted again.
        parts: list[bytes] = []
        room = _ROOM
        for kind in sorted(self._numbers):
            values = self._numbers[kind][: room // _NUMBER_BYTES]
            if values:
                steps = array("q", [values[0], *map(operator.sub, values[1:], values)])
                room -= len(steps) * _NUMBER_BYTES
                parts += (_BLOCK.pack(kind, len(steps)), _little(steps).tobytes())
            self._complete &= len(values) == len(self._numbers[kind])
        for kind in sorted(self._pieces):
            taken = list(accumulate(len(piece) + _PIECE_BYTES for piece in list(self._pieces[kind])))
            pieces = self._pieces[kind][: bisect_right(taken, room)]
            self._complete &= len(pieces) == len(taken)
            if pieces:
                room -= taken[len(pieces) - 1]
                parts += (_BLOCK.pack(kind, len(pieces)), _little(array("I", map(len, pieces))).tobytes(), *pieces)
        head = _MAGIC + bytes([0 if self._complete else _INCOMPLETE])
        return head + _compressed(b"".join(parts)) if parts else head


class _Player:
    """Serves the readings of a log until the first difference."""

    def __init__(self, log: bytes) -> None:
        self._divergence = ""
        self._complete = True
        self._counts: dict[int, int] = {}
        self._queues: dict[int, Iterator[Any]] = {}
        self._last: dict[str, int] = {}
        self._ahead: dict[str, int] = {}  # how far a steady clock goes before the real one
        try:
            self._load(log)
        except (ValueError, zlib.error, struct.error, OverflowError, EOFError, MemoryError) as error:
            self._queues.clear()
            self._counts.clear()
            self._divergence = f"the nondeterminism log cannot be read: {error}; all readings are real"

    def has(self, kind: int) -> bool:
        return kind in self._counts

    def number(self, kind: int, read: Callable[[], int]) -> int:
        steady = _STEADY.get(kind)
        if not self._divergence:
            value = next(self._queues.get(kind, _NOTHING), None)
            if value is not None:
                if steady is not None:
                    self._last[steady] = max(value, self._last.get(steady, value))
                return value
            self._miss(kind)
        real = read()
        if steady is None:
            return real
        if steady in self._last:
            self._ahead[steady] = self._last.pop(steady) - real
        return real + self._ahead.get(steady, 0)

    def piece(self, kind: int, size: int, read: Callable[[int], bytes]) -> bytes:
        if not self._divergence:
            value = next(self._queues.get(kind, _NOTHING), None)
            if value is not None and len(value) == size:
                return value
            if value is None:
                self._miss(kind)
            else:
                number = self._counts[kind] - self._left(kind)
                self._divergence = (
                    f"reading {number} of {KINDS[kind]} asks for {size} bytes, but {len(value)} were recorded"
                )
        return read(size)

    def _miss(self, kind: int) -> None:
        name, recorded = KINDS[kind], self._counts.get(kind, 0)
        if not self._complete:
            self._divergence = f"the nondeterminism log is incomplete and ends before reading {recorded + 1} of {name}"
        elif recorded:
            self._divergence = f"reading {recorded + 1} of {name} is one more than was recorded"
        else:
            self._divergence = f"reading 1 of {name}: none was recorded"

    def _left(self, kind: int) -> int:
        """How many readings were not taken. Takes them: called when nothing more will be served."""
        return sum(1 for _ in self._queues[kind])

    def finish(self) -> str:
        """The first difference. Readings that were not taken count as one."""
        for kind, count in self._counts.items():
            if not self._divergence and (left := self._left(kind)):
                self._divergence = f"{KINDS[kind]} was read {count - left} times, but {count} were recorded"
        return self._divergence

    def _load(self, log: bytes) -> None:
        if log[:3] != _MAGIC or len(log) < 4:
            raise ValueError("it is not a nondeterminism log of this version")
        self._complete = not log[3] & _INCOMPLETE
        if len(log) == 4:
            return
        stream = zlib.decompressobj()
        blocks = stream.decompress(log[4:], NONDETERMINISM_BYTES_MAX)
        if not stream.eof or stream.unused_data:
            raise ValueError("it is cut, or too long")
        at = 0
        while at < len(blocks):
            kind, count = _BLOCK.unpack_from(blocks, at)
            at += _BLOCK.size
            if kind >= len(KINDS) or kind in self._counts or not count:
                raise ValueError(f"a block of kind {kind} with {count} readings")
            at = self._load_block(kind, count, blocks, at)
            self._counts[kind] = count

    def _load_block(self, kind: int, count: int, blocks: bytes, at: int) -> int:
        form, width = ("I", _PIECE_BYTES) if kind in _PIECES else ("q", _NUMBER_BYTES)
        end = at + count * width
        if end > len(blocks):
            raise ValueError("it is cut")
        values = array(form)
        values.frombytes(blocks[at:end])
        _little(values)
        if kind not in _PIECES:
            moments = list(accumulate(values))
            furthest = _FURTHEST // 1000 if KINDS[kind].startswith("date") else _FURTHEST
            if max(moments) > furthest or min(moments) < -furthest:
                raise ValueError(f"{KINDS[kind]} at a moment out of range")
            self._queues[kind] = iter(moments)
            return end
        ends = list(accumulate(values, initial=end))
        if ends[-1] > len(blocks):
            raise ValueError("it is cut")
        self._queues[kind] = iter([blocks[one:two] for one, two in pairwise(ends)])
        return ends[-1]


_NOTHING: "Iterator[Any]" = iter(())


def _compressed(blocks: bytes) -> bytes:
    """A zlib stream. A few bytes are only stored in it: compressing takes 260 KB of fresh memory, whatever the size."""
    if len(blocks) > _STORED_BYTES_MAX:
        return zlib.compress(blocks, 1)
    sizes = _SIZES.pack(len(blocks), len(blocks) ^ 0xFFFF)
    return _STORED.pack(0x7801, 1) + sizes + blocks + _SUM.pack(zlib.adler32(blocks))


def _little(values: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        values.byteswap()
    return values
