"""Python's sources of time and randomness, replaced so that the nondeterminism log of an execution sees them.

`install` is called once, before anything else can have bound a name: in a zygote before it preloads, in a kernel of its
own before it runs code. From then on `time.time`, `datetime.now`, `os.urandom` and the like first check for a log.
Without one (no execution is recorded or replayed) they behave as usual (40 ns later).

They stay what they were to code: `Function` does not bind as a method, pickles by name and shows itself as the builtin
that it stands for; `datetime` and `date` are the same types, of which `now`, `utcnow` and `today` are replaced in place
(docs/decisions/0018-what-is-on-a-tape.md).

What only waits (`_WAITING`: event loops, locks, queues, pipes) has the real clock: a deadline must pass during a
replay, and how often a loop reads the clock is not the code's doing. `time.sleep` sleeps.
"""

import ctypes
import gc
import importlib
import os
import posix
import sys
import time
import warnings
from array import array
from collections.abc import Callable
from typing import Any

from moonpool_guest.python.nondeterminism_log import KINDS, START, NondeterminismLog

_SEED_BYTES = 32
_NS = 1_000_000_000
_WAITING = frozenset(
    (
        "asyncio.base_events", "asyncio.timeouts", "concurrent.futures._base", "concurrent.futures.process",
        "multiprocessing.connection", "multiprocessing.managers", "multiprocessing.popen_fork",
        "multiprocessing.queues", "multiprocessing.synchronize", "multiprocessing.util", "queue", "selectors",
        "socketserver", "subprocess", "threading",
    )
)  # fmt: skip
_log: "NondeterminismLog | None" = None
_frame = sys._getframe  # pyright: ignore[reportPrivateUsage]
_real_urandom = posix.urandom
_real_time_ns = time.time_ns


class Function(staticmethod):  # pyright: ignore[reportMissingTypeArgument]
    """A replaced builtin: it is called as quickly as one, and is no more a method than one."""

    def __get__(self, instance: object, owner: "type | None" = None) -> "Function":
        return self

    def __reduce__(self) -> str:
        return self.__name__  # with `__module__` the name that it is pickled by

    def __repr__(self) -> str:
        return f"<built-in function {self.__name__}>"


def begin(log: NondeterminismLog, *, fresh: bool) -> None:
    """Use `log` from now on. `fresh`: no code has run in this kernel, so `random` can be seeded from the log."""
    global _log
    _log = log
    if log.seeds(fresh=fresh):
        _start_anew(log.piece(START, _SEED_BYTES, _real_urandom))


def end() -> None:
    """Stop using a log."""
    global _log
    _log = None


def _start_anew(seed: bytes) -> None:
    sys.modules["random"].seed(int.from_bytes(seed, "little"))
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(array("I", seed[::-1]).tolist())  # the same seed would give the same numbers


def install() -> None:
    """Replace the functions. Once in a process; what is forked from it has them, too."""
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        in_ns = getattr(time, f"{name}_ns")
        replace(time, f"{name}_ns", _clock(getattr(time, f"{name}_ns"), in_ns, _kind(f"time.{name}_ns")))
        replace(time, name, _clock_in_s(getattr(time, name), in_ns, _kind(f"time.{name}")))
    for name in ("clock_gettime", "clock_gettime_ns"):
        replace(time, name, _clock_by_id(getattr(time, name), time.clock_gettime_ns, _kind(f"time.{name}"), name))
    localtime = time.localtime
    for name in ("localtime", "gmtime", "ctime"):
        replace(time, name, _calendar(getattr(time, name), _kind(f"time.{name}")))
    replace(time, "asctime", _text_of_now(time.asctime, localtime, _kind("time.asctime"), 0))
    replace(time, "strftime", _text_of_now(time.strftime, localtime, _kind("time.strftime"), 1))
    _install_chance()
    _install_dates()
    os.register_at_fork(after_in_child=end)  # what a forked child reads is its own


def _kind(name: str) -> int:
    return KINDS.index(name)


def replace(module: Any, name: str, function: "Callable[..., Any]") -> "Function":
    """Put `function` in the place of a builtin of `module`, and make it look like that."""
    real = getattr(module, name)
    function.__name__ = function.__qualname__ = name
    function.__doc__, function.__module__, function.__annotations__ = real.__doc__, real.__module__, {}
    replaced = Function(function)
    setattr(module, name, replaced)
    return replaced


# --- clocks


def _waits() -> bool:
    """Whether the caller of our caller only waits."""
    try:
        return _frame(2).f_globals.get("__name__") in _WAITING
    except ValueError:  # called from C, with no Python below
        return False


def _clock(real: "Callable[[], int]", in_ns: "Callable[[], int]", kind: int) -> "Callable[..., Any]":
    def read() -> int:
        if (log := _log) is None or _waits():
            return real()
        return log.number(kind, in_ns)

    return read


def _clock_in_s(real: "Callable[[], float]", in_ns: "Callable[[], int]", kind: int) -> "Callable[..., Any]":
    def read() -> float:
        if (log := _log) is None or _waits():
            return real()
        return log.number(kind, in_ns) / _NS

    return read


def _clock_by_id(
    real: "Callable[[int], Any]", in_ns: "Callable[[int], int]", kind: int, name: str
) -> "Callable[..., Any]":
    per = 1 if name.endswith("_ns") else _NS

    def read(clk_id: int, /) -> float:
        if (log := _log) is None:
            return real(clk_id)
        value = log.number(kind, lambda: in_ns(clk_id))
        return value if per == 1 else value / per

    return read


def _calendar(real: "Callable[..., Any]", kind: int) -> "Callable[..., Any]":
    def read(seconds: "float | None" = None, /) -> Any:
        if seconds is None and (log := _log) is not None:
            seconds = log.number(kind, _real_time_ns) // _NS
        return real(seconds)

    return read


def _text_of_now(
    real: "Callable[..., str]", localtime: "Callable[..., Any]", kind: int, count: int
) -> "Callable[..., Any]":
    """`count`: the arguments that stand before the time, which may be left out."""

    def read(*arguments: Any) -> str:
        if len(arguments) == count and (log := _log) is not None:
            arguments = (*arguments, localtime(log.number(kind, _real_time_ns) // _NS))
        return real(*arguments)

    return read


# --- randomness


def _install_chance() -> None:
    kind_urandom, kind_getrandom = _kind("os.urandom"), _kind("os.getrandom")
    real_getrandom = posix.getrandom

    def urandom(size: int, /) -> bytes:
        if (log := _log) is None:
            return _real_urandom(size)
        return log.piece(kind_urandom, size, _real_urandom)

    def getrandom(size: int, flags: int = 0) -> bytes:
        if (log := _log) is None:
            return real_getrandom(size, flags)
        return log.piece(kind_getrandom, size, lambda size: real_getrandom(size, flags))

    os.urandom = replace(posix, "urandom", urandom)  # pyright: ignore[reportAttributeAccessIssue]
    os.getrandom = replace(posix, "getrandom", getrandom)  # pyright: ignore[reportAttributeAccessIssue]
    _install_random(importlib.import_module("random"))
    _install_uuid()


def _install_random(random: Any) -> None:
    random._urandom = os.urandom  # SystemRandom, and so `secrets` and numpy's fresh generators
    real, kind = random.Random.seed, _kind("random.seed")

    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        if a is None and (log := _log) is not None:
            a = int.from_bytes(log.piece(kind, _SEED_BYTES, _real_urandom), "little")
        real(self, a, version)

    seed.__qualname__, seed.__doc__, seed.__module__ = real.__qualname__, real.__doc__, real.__module__
    random.Random.seed = seed
    random.seed = random._inst.seed


def _install_uuid() -> None:
    try:
        _uuid: Any = importlib.import_module("_uuid")
        real = _uuid.generate_time_safe
    except (ImportError, AttributeError):
        return  # then `uuid` asks `time` and `random`
    kind, safeties = _kind("uuid.uuid1"), (None, 0, -1)

    def read(_size: int) -> bytes:
        uuid, safety = real()
        return uuid + bytes([safeties.index(safety) if safety in safeties else 0])

    def generate_time_safe() -> Any:
        if (log := _log) is None:
            return real()
        value = log.piece(kind, 17, read)
        return value[:16], safeties[value[16] % len(safeties)]

    replaced = replace(_uuid, "generate_time_safe", generate_time_safe)
    if (uuid := sys.modules.get("uuid")) is not None:
        uuid._generate_time_safe = replaced  # pyright: ignore[reportAttributeAccessIssue]


# --- dates


def _install_dates() -> None:
    types: Any = importlib.import_module("_datetime")
    date, datetime, utc = types.date, types.datetime, types.timezone.utc
    of_datetime: dict[str, Any] = datetime.__dict__.copy()
    of_date: dict[str, Any] = date.__dict__.copy()
    real_now, real_utcnow, real_today = of_datetime["now"], of_datetime["utcnow"], of_date["today"]
    stamp, without_zone = of_datetime["fromtimestamp"].__get__, datetime.replace
    kind_now, kind_utcnow, kind_today = _kind("datetime.now"), _kind("datetime.utcnow"), _kind("date.today")

    def microseconds() -> int:
        return _real_time_ns() // 1000

    now_of_datetime = datetime.now

    def now(cls: Any, tz: Any = None) -> Any:
        if (log := _log) is None:
            return now_of_datetime(tz) if cls is datetime else real_now.__get__(None, cls)(tz)
        return stamp(None, cls)(log.number(kind_now, microseconds) / 1_000_000, tz)

    def utcnow(cls: Any) -> Any:
        if deprecation:  # of the caller's, not of ours
            warnings.warn(deprecation, DeprecationWarning, stacklevel=2)
        elif _log is None:
            return real_utcnow.__get__(None, cls)()
        at = microseconds() if (log := _log) is None else log.number(kind_utcnow, microseconds)
        return without_zone(stamp(None, cls)(at / 1_000_000, utc), tzinfo=None)

    def today(cls: Any) -> Any:
        if (log := _log) is None:
            return real_today.__get__(None, cls)()
        return cls.fromtimestamp(log.number(kind_today, microseconds) / 1_000_000)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        datetime.utcnow()
    deprecation = str(heard[0].message) if heard else ""
    for owner, function, real in (
        (datetime, now, real_now),
        (datetime, utcnow, real_utcnow),
        (date, today, real_today),
    ):
        function.__qualname__, function.__doc__ = f"{owner.__name__}.{function.__name__}", real.__doc__
        function.__module__, function.__annotations__ = "datetime", {}
        _replace_in_type(owner, function)


def _replace_in_type(owner: type, method: "Callable[..., Any]") -> None:
    """Replace a class method of a type that is written in C, which `setattr` refuses to do."""
    (names,) = gc.get_referents(vars(owner))
    names[method.__name__] = classmethod(method)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))
