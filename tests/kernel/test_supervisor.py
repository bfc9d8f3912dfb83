"""PID 1 of a session with checkpoints, in this process: what it hears and in which order."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Any

from moonpool_guest import linux
from moonpool_guest.checkpoints.supervisor import Supervisor

if TYPE_CHECKING:
    import pytest


def test_a_kernel_that_ends_while_pid_1_looks_around_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks for processes reaps, too, and takes the signal's byte: nothing else wakes the loop up."""

    def nothing(*_: Any, **__: Any) -> None: ...

    for module, name in ((signal, "signal"), (signal, "set_wakeup_fd"), (linux, "hide_proc_files")):
        monkeypatch.setattr(module, name, nothing)
    channel: Any = None
    served: Any = Supervisor(lambda: None, channel, b"mark")
    served._files.save = served._fork = nothing
    ours, its = socket.socketpair(type=socket.SOCK_SEQPACKET)

    def check(_: object) -> None:
        served._fallen = 3

    def go_on(status: int) -> tuple[int, int]:
        return status, 0

    served._check, served._go_on = check, go_on
    with ours, its, served.report, served._reports:
        served._kernel = 7, ours
        served._poll.register(ours.fileno())
        its.send(b'{"op": "check"}')
        its.close()  # poll wakes up again: without the mend with nothing to hear
        assert served.serve(1, 1) == (3, 0)
    os.close(served._wake)
    os.close(served._woken)
