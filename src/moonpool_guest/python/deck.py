"""Puts a tape in for an execution and hands over what was recorded.

Only Python is taped: an execution in another language, and a rehearsal, run without. What threads of the code read
after the execution has ended is not on its tape, and what a forked child reads is on none.
"""

from typing import Any

from moonpool_guest.channel import GuestChannel
from moonpool_guest.python import sources
from moonpool_guest.python.nondeterminism_log import NondeterminismLog


class Deck:
    """The kernel's; holds at most one tape."""

    def __init__(self) -> None:
        self._fresh = True  # no Python code has run here, but for a rehearsal
        self._sent: tuple[object, bytes] | None = None  # a tape for the run that comes next
        self._tape: NondeterminismLog | None = None

    def take(self, run: object, tape: bytes) -> None:
        """Keep `tape` for the execution `run`, if that is the next."""
        self._sent = (run, tape)

    def start(self, order: "dict[str, Any]") -> None:
        """Record or play, if `order` says so or a tape for it has come."""
        sent, self._sent = self._sent, None
        self._tape = None
        if order.get("language", "python") != "python" or order.get("rehearse"):
            return
        fresh, self._fresh = self._fresh, False
        played = sent[1] if sent is not None and sent[0] == order["run"] else None
        if played is not None or order.get("record"):
            self._tape = NondeterminismLog(record=bool(order.get("record")), played=played)
            sources.begin(self._tape, fresh=fresh)

    @staticmethod
    def stop() -> None:
        """The code has ended."""
        sources.end()

    def hand_over(self, channel: GuestChannel, run: object) -> None:
        """Send what was recorded, before anything that is sent afterwards."""
        tape, self._tape = self._tape, None
        if tape is None:
            return
        try:
            body, divergence = tape.finish()
        except BaseException:  # out of memory in our own code; the execution has its outcome all the same
            return
        channel.send({"t": "tape", "run": run, "divergence": divergence}, body, more=True)
        channel.wait_sent()
