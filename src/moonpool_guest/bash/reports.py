"""What bash reports to PID 1: records that begin with a letter and end in NUL. Pure.

    D number status flags     the code of execution `number` is over; flags is `$-`
    F status line command     a command failed while `set -e` was on
    I                         an interrupt made the code return
    X status                  bash is ending
    O text                    then: its options, as commands that set them
    S text                    then: everything else, likewise

SECURITY: code can write here too. What it writes is bounded (`BYTES_MAX`) and says only how its own execution ended.
"""

from dataclasses import dataclass, field

BYTES_MAX = 16 * 1024 * 1024
"""Of one execution; a session whose variables are larger than this starts empty after `exit`."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The command that ended the code, because `set -e` was on."""

    status: int
    line: int
    command: str


@dataclass(slots=True)
class Reports:
    """Collects the records of one execution."""

    number: int
    status: int | None = None  # of the code, when it is over
    flags: str = ""
    interrupted: bool = False
    failure: Failure | None = None
    leaving: int | None = None  # the status that bash ends with
    overflowed: bool = False
    _options: bytes | None = None
    _state: bytes | None = None
    _rest: bytearray = field(default_factory=bytearray)
    _taken: int = 0

    def feed(self, data: bytes) -> None:
        """Take bytes as they come."""
        self._taken += len(data)
        if self._taken > BYTES_MAX:
            self.overflowed = self.leaving is None  # else only its state is lost, and it may end in peace
            self._rest.clear()
            self._state = None
            return
        self._rest += data
        if 0 in data:
            *records, rest = bytes(self._rest).split(b"\0")
            self._rest[:] = rest
            for record in records:
                self._take(record[:1], record[1:])

    @property
    def state(self) -> bytes | None:
        """Commands that give the next bash what this one had, if it said so to the end."""
        if self._options is None or self._state is None:
            return None
        return self._state + self._options

    def _take(self, kind: bytes, text: bytes) -> None:
        if kind == b"I":
            self.interrupted = True
        elif kind == b"O":
            self._options = text
        elif kind == b"S":
            self._state = text
        else:
            try:
                self._take_numbers(kind, text)
            except (ValueError, IndexError):
                pass  # not ours

    def _take_numbers(self, kind: bytes, text: bytes) -> None:
        if kind == b"D":
            number, status, flags = text.split(b" ", 2)
            if int(number) == self.number and self.status is None:
                self.status, self.flags = int(status) & 0xFF, flags.decode("ascii", "replace")
        elif kind == b"F":
            status, line, command = text.split(b" ", 2)
            self.failure = Failure(int(status) & 0xFF, int(line), command.decode("utf-8", "replace"))
        elif kind == b"X":
            self.leaving = int(text) & 0xFF
