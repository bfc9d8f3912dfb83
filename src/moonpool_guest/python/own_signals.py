"""Signals that code sends to its own process, which is PID 1 of its sandbox.

The Linux kernel drops a signal that PID 1 of a namespace gets from inside and does not handle, SIGKILL included: code
that ends itself would live on. So what Python has for it (`os.kill`, `signal.raise_signal`, timers and the like) is
replaced: where the default action of the signal ends a process, PID 1 exits with 128 and its number, and the host
reports that as the signal. Handlers, ignored and blocked signals work as ever. What other processes send to PID 1 and
what is sent past Python is dropped as before.

`install` is called once, before anything else can have bound a name. In a forked child, which is no PID 1, signals do
what they always do.
"""

import importlib
import os
import posix
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from moonpool_guest.python.sources import replace

_signal: Any = importlib.import_module("_signal")
_HARMLESS = {
    signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH,
    signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
}  # fmt: skip
_ENDING = frozenset(signal.valid_signals()) - _HARMLESS
_OF_TIMERS = {
    signal.ITIMER_REAL: signal.SIGALRM, signal.ITIMER_VIRTUAL: signal.SIGVTALRM, signal.ITIMER_PROF: signal.SIGPROF
}  # fmt: skip
_expected: "set[int]" = set()  # signals of timers that were started
_getpid, _getpgrp, _kill, _exit = os.getpid, os.getpgrp, os.kill, os._exit
_getsignal, _setsignal, _getmask = signal.getsignal, signal.signal, signal.pthread_sigmask


def install() -> None:
    """Replace the functions, and handle what comes from timers. Once in a process, like `sources.install`."""
    for seen, home, name, made in (
        (os, posix, "kill", _sending(os.kill, _is_us)),
        (os, posix, "killpg", _sending_to_group(os.killpg)),
        (os, posix, "abort", _aborting(os.abort)),
        (signal, _signal, "raise_signal", _raising(signal.raise_signal)),
        (signal, _signal, "pthread_kill", _sending(signal.pthread_kill, lambda _: True)),
        (signal, _signal, "pidfd_send_signal", _sending(signal.pidfd_send_signal, lambda fd: _is_us(_pid_behind(fd)))),
        (signal, _signal, "alarm", _starting_alarm(signal.alarm)),
        (signal, _signal, "setitimer", _starting(signal.setitimer)),
    ):
        setattr(seen, name, replace(home, name, made))
    replace(signal, "signal", _set_handler)
    replace(signal, "getsignal", _get_handler)
    for number in _OF_TIMERS.values():
        _setsignal(number, _end)
    os.register_at_fork(after_in_child=_be_ordinary)


def sender(frame: "FrameType | None") -> "FrameType | None":
    """Where a signal met the code, for a handler that interrupts one of these functions: its caller."""
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    return frame


# --- sending


def _sending(real: "Callable[..., Any]", reaches_us: "Callable[[int], bool]") -> "Callable[..., Any]":
    def send(target: int, number: int, /, *rest: Any) -> Any:
        answer = real(target, number, *rest)
        if reaches_us(target):
            _obey(number)
        return answer

    return send


def _sending_to_group(real: "Callable[[int, int], None]") -> "Callable[..., Any]":
    def send(group: int, number: int, /) -> None:
        if group not in (0, _getpgrp()):
            real(group, number)
            return
        _kill(0, number)  # PID 1 leads group 1, and a signal to that goes to every other process instead
        _obey(number)

    return send


def _raising(real: "Callable[[int], None]") -> "Callable[..., Any]":
    def send(signalnum: int, /) -> None:
        real(signalnum)
        _obey(signalnum)

    return send


def _aborting(real: "Callable[[], None]") -> "Callable[..., Any]":
    def abort() -> None:
        if _getpid() == 1:
            _kill(1, signal.SIGABRT)  # faulthandler says where, and leaves the signal to the Linux kernel
            _exit(128 + signal.SIGABRT)
        real()

    return abort


def _obey(number: int) -> None:
    """It was sent to us and we live: end if any other program would have ended."""
    if (
        _getpid() == 1
        and number in _ENDING
        and _getsignal(number) in (signal.SIG_DFL, _end)
        and number not in _getmask(signal.SIG_BLOCK, ())
    ):
        _exit(128 + number)


def _is_us(pid: int) -> bool:
    return pid in (0, _getpid()) or (pid < -1 and -pid == _getpgrp())


def _pid_behind(pidfd: int) -> int:
    try:
        with open(f"/proc/self/fdinfo/{pidfd}", "rb") as file:
            return int(dict(line.split(b":", 1) for line in file)[b"Pid"])
    except (OSError, KeyError, ValueError):
        return -1


# --- timers


def _starting_alarm(real: "Callable[[int], int]") -> "Callable[..., Any]":
    def start(seconds: int, /) -> int:
        _expected.add(signal.SIGALRM)
        return real(seconds)

    return start


def _starting(real: "Callable[..., Any]") -> "Callable[..., Any]":
    def start(which: int, seconds: float, interval: float = 0.0, /) -> Any:
        if which in _OF_TIMERS:
            _expected.add(_OF_TIMERS[which])  # pyright: ignore[reportArgumentType]  first: it may fire at once
        return real(which, seconds, interval)

    return start


def _end(number: int, _frame: object) -> None:
    """Stands for the default action, which the Linux kernel does not take for PID 1."""
    if number in _expected:
        _exit(128 + number)


def _set_handler(signalnum: int, handler: Any) -> Any:
    if signalnum in _OF_TIMERS.values() and handler == signal.SIG_DFL and _getpid() == 1:
        handler = _end
    before = _setsignal(signalnum, handler)
    return signal.SIG_DFL if before is _end else before


def _get_handler(signalnum: int) -> Any:
    handler = _getsignal(signalnum)
    return signal.SIG_DFL if handler is _end else handler


def _be_ordinary() -> None:
    if _getpid() != 1:
        for number in _OF_TIMERS.values():
            if _getsignal(number) is _end:
                _setsignal(number, signal.SIG_DFL)
