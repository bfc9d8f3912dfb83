"""Starts recording or replaying nondeterminism for an execution, and sends the log that was recorded.

Only Python code has a log: an execution in another language, and a rehearsal, run without. Readings of the code's
threads after the execution has ended, and those of a forked child, are not recorded.
"""

from typing import Any

from moonpool_guest.channel import GuestChannel
from moonpool_guest.python import sources
from moonpool_guest.python.nondeterminism_log import NondeterminismLog


class NondeterminismRecorder:
    """One per kernel; holds at most one log."""

    def __init__(self) -> None:
        self._fresh = True  # no Python code has run here, but for a rehearsal
        self._sent: tuple[object, bytes] | None = None  # a log to replay, for the run that comes next
        self._log: NondeterminismLog | None = None

    def take(self, run: object, log: bytes) -> None:
        """Keep `log` for the execution `run`, if that is the next one."""
        self._sent = (run, log)

    def start(self, order: "dict[str, Any]") -> None:
        """Record if `order` says so; replay if a log for it has arrived."""
        sent, self._sent = self._sent, None
        self._log = None
        if order.get("language", "python") != "python" or order.get("rehearse"):
            return
        fresh, self._fresh = self._fresh, False
        played = sent[1] if sent is not None and sent[0] == order["run"] else None
        if played is not None or order.get("record"):
            self._log = NondeterminismLog(record=bool(order.get("record")), played=played)
            sources.begin(self._log, fresh=fresh)

    @staticmethod
    def stop() -> None:
        """The code has ended."""
        sources.end()

    def hand_over(self, channel: GuestChannel, run: object) -> None:
        """Send the recorded log, before anything that is sent afterwards."""
        log, self._log = self._log, None
        if log is None:
            return
        try:
            body, divergence = log.finish()
        except BaseException:  # out of memory in our own code; the execution has its outcome all the same
            return
        channel.send({"t": "nondeterminism_log", "run": run, "divergence": divergence}, body, more=True)
        channel.wait_sent()
