"""Parses Python code of a client in a process with limits, to protect the host's memory and time.

CPython's parser holds the GIL, and some inputs cost it far more than their size. So no code from outside is parsed
here; `child_process` parses it and returns a bounded description.

Blocking, for some 50 ms and at most `WAIT_S_MAX`: a service calls it in a worker thread. The description is data:
nothing in it is executed or imported.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from moonpool.code_reading.child_process import CPU_S_MAX, MEMORY_BYTES_MAX
from moonpool.code_reading.json_form import index_json, read_code_json
from moonpool.code_reading.reading import UnreadableCodeError
from moonpool.code_reading.scopes import TooManyNodesError
from moonpool.core.errors import InputError
from moonpool.features.library.model.actions import ActionInterface

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from moonpool.code_reading.names import NameIndex
    from moonpool.code_reading.reading import CodeRead
    from moonpool.core.json import JsonObject

    WireNames = Callable[[str, str], Mapping[str, str]]

WAIT_S_MAX: Final = 20.0
"""For one process, whose processor time is limited anyway; on a busy machine it gets less."""
ANSWER_BYTES_MAX: Final = 4 * 1024**2
"""For one description. The literals of the largest code fit; decoding more would cost us as much as parsing."""
_GONE_WITHIN_S: Final = 1.0
_BY_A_LIMIT: Final = frozenset({-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGSEGV})
_ROOT: Final = Path(__file__).parents[2]
_RECEIVE_BYTES: Final = 64 * 1024
_LIMITS: Final = f"{CPU_S_MAX} s of processor time and {MEMORY_BYTES_MAX // 1024**2} MiB"


class CodeTooCostlyError(Exception):
    """The process could not be started or hit one of its limits and ended. The message is a clause that says which."""


class ReadCode(Protocol):
    """Parses code like `moonpool.code_reading.reading.read_code`.

    Raises UnreadableCodeError, TooManyNodesError, CodeTooCostlyError: after CodeTooCostlyError it cannot be used any
    more.
    """

    def __call__(self, source: bytes, /, *, module: str = "") -> CodeRead: ...


@contextmanager
def reading_process(index: NameIndex, wire_names: WireNames) -> Generator[ReadCode]:
    """A reader of code that uses the names of `index`. Raises CodeTooCostlyError."""
    with _Child() as child:
        child.ask({"do": "know", "index": index_json(index)})

        def read(source: bytes, /, *, module: str = "") -> CodeRead:
            try:
                order: JsonObject = {"do": "read", "code": source.decode(), "module": module}
            except UnicodeDecodeError as error:
                raise UnreadableCodeError.of(error) from None
            return read_code_json(child.ask(order, wire_names))

        yield read


def read_interface(code: bytes, name: str, description: str) -> ActionInterface:
    """`moonpool.features.library.model.actions.read_interface`, in a process with limits. Raises InputError."""
    return ActionInterface(
        **_ask_once({"do": "interface", "code": code.decode(), "name": name, "description": description})
    )


def trim(code: bytes) -> tuple[bytes, tuple[str, ...]]:
    """`moonpool.features.library.model.actions.trim`, in a process with limits. Raises InputError."""
    answer = _ask_once({"do": "trim", "code": code.decode()})
    return answer["code"].encode(), tuple(answer["left_out"])


def _ask_once(order: JsonObject) -> Any:
    try:
        with _Child() as child:
            return child.ask(order)
    except TooManyNodesError:
        raise InputError("the code is too large, or nested too deeply, to be read; split it") from None
    except CodeTooCostlyError as error:
        raise InputError(f"the code cannot be read: {error}") from None


class _Child:
    """The process, from the first request to the last."""

    def __init__(self) -> None:
        self._until = time.monotonic() + WAIT_S_MAX
        self._received = b""
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = _start(theirs.fileno())
        except OSError as error:
            self._socket.close()
            raise CodeTooCostlyError(f"no process can be started for it ({error.strerror or error})") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def ask(self, order: JsonObject, wire_names: WireNames | None = None) -> Any:
        self._send(order)
        while "wire_names" in (answer := self._receive()):
            assert wire_names is not None
            self._send(dict(wire_names(*answer["wire_names"])))
        match answer.get("failed"):
            case None:
                return answer
            case "unreadable":
                raise UnreadableCodeError(answer["message"], type=answer["type"], line=answer["line"])
            case "input":
                raise InputError(answer["message"])
            case _:
                raise TooManyNodesError

    def _send(self, members: JsonObject) -> None:
        self._wait_no_longer()
        with suppress(OSError):  # a process that is gone is noticed when reading
            self._socket.sendall(json.dumps(members).encode() + b"\n")

    def _receive(self) -> Any:
        pieces = [self._received]
        while b"\n" not in pieces[-1]:
            self._wait_no_longer()
            try:
                pieces.append(self._socket.recv(_RECEIVE_BYTES))
            except OSError:  # the timeout, or a reset
                pieces.append(b"")
            if not pieces[-1]:
                raise CodeTooCostlyError(self._why_silent())
            if len(pieces) * _RECEIVE_BYTES > ANSWER_BYTES_MAX and sum(map(len, pieces)) > ANSWER_BYTES_MAX:
                raise CodeTooCostlyError(f"what it uses comes to more than {ANSWER_BYTES_MAX:,} bytes")
        line, _, self._received = b"".join(pieces).partition(b"\n")
        return json.loads(line)

    def _why_silent(self) -> str:
        try:
            status = self._process.wait(_GONE_WITHIN_S)
        except subprocess.TimeoutExpired:
            return f"that takes longer than {WAIT_S_MAX:g} s"
        if status in _BY_A_LIMIT:
            return f"that takes more than {_LIMITS}"
        return f"the process that reads it ended with status {status}; is {sys.executable!r} Python?"

    def _wait_no_longer(self) -> None:
        self._socket.settimeout(max(0.001, self._until - time.monotonic()))


def _start(fd: int) -> subprocess.Popen[bytes]:
    libraries = os.environ.get("LD_LIBRARY_PATH")
    program = (
        f"import sys; sys.path.append({str(_ROOT)!r}); from moonpool.code_reading.child_process import main; main({fd})"
    )
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(fd,),
        env={} if libraries is None else {"LD_LIBRARY_PATH": libraries},
        cwd="/",
    )
