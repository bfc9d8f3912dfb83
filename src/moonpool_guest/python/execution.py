"""One execution: compile the code as it is, run it, report how it ended.

The code is compiled unchanged, so line numbers, multi-line strings and `from __future__` stay right (H-031), but for a
last expression, whose value is kept (`last_expression`). Code with
top-level `await` becomes a coroutine and runs on the kernel's loop; other code runs without a loop, so that
`asyncio.run(main())` works as in any script (H-030). Tracebacks (`tracebacks`) go to stderr.
"""

import asyncio
import codecs
import dis
import inspect
import linecache
import sys
import threading
from asyncio import events
from types import CodeType, ModuleType
from typing import Any

from moonpool_guest.channel import GuestChannel
from moonpool_guest.python import handoff, ipython, nesting, pictures, tracebacks, unawaited, working_dir
from moonpool_guest.python.last_expression import NAME as LAST
from moonpool_guest.python.last_expression import compile_code

RESULT = "result"
_TYPE_CHARS_MAX, _MESSAGE_CHARS_MAX = 200, 2000  # a head holds 16 KiB; one character takes up to six bytes in JSON
_NOTE_CHARS_MAX = 500
_LAST_NAME = "the last expression"
_TURNS_TO_WAKE = 3  # of the loop: one wakes who waits for a task, two who waits for several
_MISSING = object()
_STORE_NAME, _STORE_GLOBAL = dis.opmap["STORE_NAME"], dis.opmap["STORE_GLOBAL"]
_ARGUMENT_MAX = 0xFF


class Outcome:
    """How an execution ended: the fields of `done`."""

    def __init__(self, status: str) -> None:
        self.status = status
        self.exit_code = 0
        self.error: dict[str, Any] | None = None
        self.result: bytes | None = None
        self.last: bytes | None = None  # value of the code's last expression
        self.note = ""  # why there is no such value

    def fail(self, kind: str, message: str, *, retryable: bool = False, of_result: bool = False) -> "Outcome":
        """Make this outcome an error and return it. `of_result`: the code itself came to its end."""
        self.status = "error" if self.status == "ok" else self.status
        self.error = {
            "type": _clean(kind, _TYPE_CHARS_MAX),
            "message": _clean(message, _MESSAGE_CHARS_MAX),
            "retryable": retryable,
            **({"of_result": True} if of_result else {}),
        }
        self.result = self.last = None
        return self

    def remark(self, note: str) -> None:
        """Say why there is no value of the last expression."""
        self.note = _clean(note, _NOTE_CHARS_MAX)


class Interpreter:
    """The state that executions of one session share: the namespace and the event loop."""

    def __init__(self) -> None:
        self.module = type(sys)("__main__")
        self.module.__dict__["__builtins__"] = __builtins__
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def main(cls) -> "Interpreter":
        """The interpreter whose namespace is `__main__`."""
        interpreter = cls()
        sys.modules["__main__"] = interpreter.module
        return interpreter

    @classmethod
    def rehearsal(cls) -> "Interpreter":
        """One whose namespace nobody sees."""
        return cls()

    def run(
        self, source: bytes, name: str, *, final: bool, result_bytes_max: int, display: "GuestChannel | None" = None
    ) -> Outcome:
        """Run `source` and return its outcome. `final` says that nothing will run here afterwards.

        `display` asks for IPython's reading of the code; values that it shows are sent there.
        """
        namespace = self.module.__dict__
        before = namespace.get(RESULT, _MISSING)
        try:
            pieces = _compile(source, name, self.module if display is not None else None)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            _print_exception(error)
            return Outcome("ok").fail(type(error).__name__, _describe_syntax(error))
        namespace.pop(LAST, None)  # an interrupt may have left it there
        outcome = self._run_code(pieces, namespace)
        last = namespace.pop(LAST, None)
        if display is not None and outcome.error is None:
            _show_last(display, last)
        if outcome.status != "interrupted":
            _show_figures()
        if final and outcome.status != "interrupted":  # whoever interrupts wants an end, not a wait for threads
            self._finish_quietly()
        if outcome.error is None:
            value = namespace.get(RESULT, _MISSING)
            if value is not _MISSING and (value is not before or any(map(_stores_result, pieces))):
                _attach_result(outcome, value, result_bytes_max)
            elif last is not None:
                _attach_last(outcome, last, result_bytes_max)
        if outcome.error is None and (lost := "".join(unawaited.held_by(piece, namespace) for piece in pieces)):
            _write_stderr(lost)
        return outcome

    def _run_code(self, pieces: "tuple[CodeType, ...]", namespace: "dict[str, Any]") -> Outcome:
        try:
            self._execute(pieces, namespace)
        except SystemExit as error:
            return _exited(error)
        except KeyboardInterrupt as error:
            _print_exception(error)
            return Outcome("interrupted").fail("KeyboardInterrupt", "the execution was interrupted")
        except BaseException as error:
            outcome = _failed(error)  # first: where it takes its text, an interrupt is not swallowed
            _print_exception(error)
            return outcome
        finally:
            working_dir.put_back()
        return Outcome("ok")

    def _execute(self, pieces: "tuple[CodeType, ...]", namespace: "dict[str, Any]") -> None:
        events._set_running_loop(None)  # an interrupt may have kept a loop from putting it back
        if not any(piece.co_flags & inspect.CO_COROUTINE for piece in pieces):
            for piece in pieces:
                exec(piece, namespace)
            return
        loop = self.loop()
        nesting.drop_stops(loop)
        earlier = asyncio.all_tasks(loop)
        main = loop.create_task(_in_turn(pieces, namespace))
        try:
            loop.run_until_complete(main)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                _cancel(loop, asyncio.all_tasks(loop) - earlier, error)  # what this execution started
            if main.done() and not main.cancelled():
                main.exception()  # retrieved, so that the loop does not report it a second time
            raise

    @property
    def own_loop(self) -> "asyncio.AbstractEventLoop | None":
        """The loop, if there is one."""
        return self._loop

    def loop(self) -> "asyncio.AbstractEventLoop":
        """The kernel's event loop, which lives as long as the session; another if an interrupt broke it."""
        if self._loop is None or self._loop.is_closed() or self._loop.is_running():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop

    def end(self) -> None:
        """Forget the loop and the lines of code, in a process that lives on."""
        if self._loop is not None:
            self._loop.close()
            # A new one, which makes its first loop by itself, as scripts expect.
            asyncio.set_event_loop_policy(None)  # pyright: ignore[reportDeprecated]
        linecache.clearcache()

    def _finish(self) -> None:
        """End as a script ends: cancel what is pending, join non-daemon threads, run `atexit`."""
        import atexit

        if self._loop is not None and not self._loop.is_closed():
            _cancel(self._loop, asyncio.all_tasks(self._loop))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  joins threads
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]

    def _finish_quietly(self) -> None:
        try:
            self._finish()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            _print_exception(error)


async def _in_turn(pieces: "tuple[CodeType, ...]", namespace: "dict[str, Any]") -> None:
    for piece in pieces:
        value = eval(piece, namespace)
        if piece.co_flags & inspect.CO_COROUTINE:
            await value


def _cancel(
    loop: asyncio.AbstractEventLoop, pending: "set[asyncio.Task[Any]]", interrupt: "KeyboardInterrupt | None" = None
) -> None:
    """Cancel these tasks and wait until they have ended, except for those that nothing will ever wake.

    `interrupt` has ended a task already; whoever awaits that task raises it once more, out of the loop.
    """
    for task in pending:
        task.cancel()
    turns = 0  # in a row, in which nobody waited for anything that may still come
    while (left := [task for task in pending if not task.done()]) and turns < _TURNS_TO_WAKE:
        live = [task for task in left if not _is_lost(task)]
        turns = 0 if live else turns + 1
        wait = asyncio.wait(live, return_when=asyncio.FIRST_COMPLETED) if live else asyncio.sleep(0)
        nesting.drop_stops(loop, left)
        try:
            loop.run_until_complete(wait)
        except KeyboardInterrupt as error:
            if error is not interrupt:
                raise
    for task in pending:
        if task.done() and not task.cancelled():
            task.exception()  # retrieved: the loop need not report it


def _is_lost(task: "asyncio.Task[Any]") -> bool:
    """Whether what it waited for is over: unless a turn of the loop wakes it, an interrupt took the callback."""
    waited_for = getattr(task, "_fut_waiter", None)
    return waited_for is not None and waited_for.done()


def _exited(error: SystemExit) -> Outcome:
    outcome = Outcome("exit")
    code = error.code
    if code is None or (isinstance(code, int) and code == 0):
        return outcome
    if isinstance(code, int):
        outcome.exit_code = code & 0xFF
        return outcome.fail("SystemExit", f"the code exited with status {code}")
    outcome.exit_code = 1
    text = _text_of(code)
    _write_stderr(f"{text}\n")
    return outcome.fail("SystemExit", text)


def _compile(source: bytes, name: str, of_ipython: "ModuleType | None" = None) -> "tuple[CodeType, ...]":
    text = source.removeprefix(codecs.BOM_UTF8).decode()
    if of_ipython is not None:
        ipython.bind(of_ipython)
        text = ipython.transformed(text)
    name = _free_name(name)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return compile_code(text, name)


def _free_name(name: str) -> str:
    """`<code>`, then `<code 2>`, ...: what an earlier execution defined keeps its source lines in tracebacks."""
    stem, end = (name[:-1], ">") if name.endswith(">") else (name, "")
    number = 1
    while name in linecache.cache:
        number += 1
        name = f"{stem} {number}{end}"
    return name


def _stores_result(code: CodeType) -> bool:
    """Whether `code` assigns the global name `result` anywhere, so that an equal object still counts as handed over."""
    names, steps = code.co_names, code.co_code
    if RESULT in names:
        if len(names) > _ARGUMENT_MAX:  # an argument takes more than one instruction
            found = ((one.opcode, one.arg) for one in dis.get_instructions(code))
        else:
            found = zip(steps[::2], steps[1::2], strict=True)  # 1 µs; `dis` takes 40
        number = names.index(RESULT)
        if any(step in ((_STORE_NAME, number), (_STORE_GLOBAL, number)) for step in found):
            return True
    return any(_stores_result(constant) for constant in code.co_consts if isinstance(constant, CodeType))


def _show_last(channel: GuestChannel, value: object) -> None:
    try:
        ipython.ended(channel, value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _print_exception(error)


def _show_figures() -> None:
    """Those that are open; before the end of a script, which closes them."""
    try:
        pictures.show_left_open()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _print_exception(error)


def _attach_result(outcome: Outcome, value: object, result_bytes_max: int) -> None:
    try:
        encoded = handoff.encode_result(value)
    except handoff.NotSerializableError as error:
        outcome.fail("ResultNotSerializable", str(error), of_result=True)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        outcome.status, outcome.error = "error", _failed(error).error
        _print_exception(error)
    else:
        if len(encoded) > result_bytes_max:
            outcome.fail(
                "OutputTooLarge",
                f"result is {len(encoded):,} bytes of JSON, but at most {result_bytes_max:,} may be handed over; "
                "return a summary, or write the data to a file in /workspace",
                of_result=True,
            )
        else:
            outcome.result = encoded


def _attach_last(outcome: Outcome, value: object, result_bytes_max: int) -> None:
    """INVARIANT: whatever the value is, the execution does not fail by it: nobody said that it is a result.

    What the value itself does while it is encoded counts: an endless method meets the time limit, and one that raises
    KeyboardInterrupt is taken for an interrupt.
    """
    try:
        outcome.last = handoff.encode_result(value, _LAST_NAME, room=result_bytes_max)
        return
    except handoff.NotSerializableError as error:
        why = str(error)
    except handoff.TooLargeError:
        why = (
            f"{_LAST_NAME} is more than {result_bytes_max:,} bytes of JSON; "
            "return a summary, or write the data to a file in /workspace"
        )
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        failed = _failed(error).error or {}
        tool_failed = hasattr(error, "__moonpool_error__")
        what = "is the result of a tool call that failed" if tool_failed else "cannot be made JSON"
        of_tool = f"{getattr(error, 'tool', 'a tool')}: {failed['type']}" if tool_failed else ""
        why = f"{_LAST_NAME} {what} ({of_tool or failed['message'] or failed['type']})"
    outcome.remark(f"nothing is returned: {why}")


def _failed(error: BaseException) -> Outcome:
    known = getattr(error, "__moonpool_error__", None)
    if callable(known):
        try:
            described: dict[str, Any] = known()  # pyright: ignore[reportAssignmentType]
            kind, message = str(described["type"]), str(described["message"])
            return Outcome("ok").fail(kind, message, retryable=bool(described.get("retryable")))
        except Exception:
            pass
    return Outcome("ok").fail(type(error).__name__, _text_of(error))


def _text_of(value: object) -> str:
    try:
        return str(value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"<{type(value).__name__} whose text cannot be shown>"


def _describe_syntax(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        # Some of Python's own messages say it: "... (detected at line 1)".
        return error.msg if f"line {error.lineno})" in error.msg else f"{error.msg} (line {error.lineno})"
    return _text_of(error)


def _clean(text: str, chars_max: int) -> str:
    text = text[: chars_max + 1].encode("utf-8", "replace").decode()
    return text if len(text) <= chars_max else text[: chars_max - 20] + "... (cut)"


def _print_exception(error: BaseException) -> None:
    try:
        text = tracebacks.shown(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = f"{type(error).__name__}: {_text_of(error)}\n"
    _write_stderr(text)


def _write_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
    except KeyboardInterrupt:
        raise
    except BaseException:
        pass
