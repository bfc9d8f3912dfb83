"""Bash as a companion of PID 1: one `bash` per session keeps variables, functions, options, traps and jobs.

Code runs as a script does (`script`). It fails when its last command does, when `set -e` ends it, when it does not
parse, or when it exits with another status than 0. What ends bash itself, `exit` and `set -e` included, runs its EXIT
trap: unless the code has put its own there, that trap writes down what bash holds, and the next one starts with it.
"""

import os
import signal

from moonpool_guest.bash import script
from moonpool_guest.bash.reports import Reports
from moonpool_guest.bash.shell import Shell
from moonpool_guest.bash.syntax import syntax_error_in
from moonpool_guest.companion import INTERRUPT_GRACE_S, Companion, ProcessGoneError
from moonpool_guest.python.execution import Outcome

_LOST = "the variables and functions of this session's bash are lost"
_MISUSE = 2
_SHOWN_CHARS_MAX = 200


class BashCompanion(Companion):
    """See the module's text."""

    language = "bash"
    process_name = "bash"

    def __init__(self, runtime: str) -> None:
        super().__init__(runtime)
        self._shell: Shell | None = None
        self._put_back = b""  # what takes variables of an execution out of bash
        self._state: bytes | None = None  # what the next bash starts with

    async def _execute(self, source: bytes, name: str, *, final: bool, result_bytes_max: int) -> Outcome:
        del name, result_bytes_max  # messages begin with `$0`; a result is a line on stdout, which the host reads
        if b"\0" in source:
            return Outcome("ok").fail("SyntaxError", "the code holds a NUL byte, which bash leaves out; remove it")
        shell = await self._ready()
        variables, self.variables = self.variables, None
        try:
            if variables is not None:
                self._put_back = script.putting_back(variables)
                await shell.restore(script.setting(variables))
            reports = await shell.execute(source, final=final)
            status = reports.status or 0
            if not final:
                await self._put_variables_back(shell)
                return await self._outcome(reports, status, source)
            status = await shell.leave(status)
        except ProcessGoneError as gone:
            return await self._ended(shell, gone.status, source, final=final)
        self._forget(shell)
        if not os.WIFEXITED(status):
            raise ProcessGoneError(status)
        return await self._outcome(reports, os.WEXITSTATUS(status), source)

    async def _rehearse(self) -> None:
        shell = await self._ready()
        try:
            await shell.execute(b":", final=False)
        except ProcessGoneError:
            self._forget(shell)

    def _pass_interrupt(self) -> None:
        """As Ctrl-C in a script: to the whole group. A plain command in the background ignores it.

        Once more if need be: bash sees a signal that comes just before it begins to wait only at the next one.
        """
        if self._process is not None and self._loop is not None:
            self._process.signal_group(signal.SIGINT)
            self._loop.call_later(INTERRUPT_GRACE_S / 2, self._remind, self._shell)

    def _remind(self, shell: "Shell | None") -> None:
        if shell is not None and shell is self._shell and shell.is_busy:
            shell.process.signal_group(signal.SIGINT)

    async def _ready(self) -> Shell:
        if self._shell is None:
            state, self._state = self._state, None
            shell = self._start()
            if state is not None:
                try:
                    await shell.restore(state)
                except ProcessGoneError:  # a trap or function of the code ended it
                    self._forget(shell)
                    self._say(f"bash could not be given back what it had; {_LOST}")
                    return self._start()
                await self._put_variables_back(shell)
            return shell
        return self._shell

    async def _put_variables_back(self, shell: Shell) -> None:
        """Those of an execution are gone after it, also where it has ended its bash, whose state the next one has."""
        state, self._put_back = self._put_back, b""
        if state:
            await shell.restore(state)

    def _start(self) -> Shell:
        self._shell = Shell(self._runtime)
        self._process = self._shell.process
        return self._shell

    def _say(self, text: str) -> None:
        """A line on stderr, for what the outcome has no place for."""
        try:
            os.write(2, f"moonpool: {text}\n".encode())
        except OSError:
            pass  # code has closed it

    def _forget(self, shell: Shell) -> None:
        shell.close()
        self._shell = self._process = None

    async def _ended(self, shell: Shell, status: int, source: bytes, *, final: bool) -> Outcome:
        """Bash has ended before it said that the code was over."""
        reports = shell.last_reports
        self._forget(shell)
        if not os.WIFEXITED(status):
            raise ProcessGoneError(status)
        self._state = None if final else reports.state
        lost = "" if final or self._state is not None else f"; {_LOST}"
        code = os.WEXITSTATUS(status)
        if self._interrupted:
            return _failed(130, "interrupted", "KeyboardInterrupt", f"the execution was interrupted{lost}")
        failure = reports.failure
        if failure is not None and failure.status == code:
            if shell.is_source(failure.command):
                return await self._outcome(reports, code, source)
            message = f"line {failure.line}: `{_short(failure.command)}` failed with status {code} (set -e){lost}"
            return _failed(code, "error", "CommandFailed", message)
        if code:
            return _failed(code, "exit", "SystemExit", f"the code exited with status {code}{lost}")
        if lost:
            self._say(f"bash has exited; {_LOST}")
        return Outcome("exit")

    async def _outcome(self, reports: Reports, status: int, source: bytes) -> Outcome:
        """The code was over, and its last command had `status`."""
        if reports.interrupted and self._interrupted:
            return _failed(130, "interrupted", "KeyboardInterrupt", "the execution was interrupted")
        if status == 0:
            return Outcome("ok")
        if status == _MISUSE and (problem := await syntax_error_in(source, self._runtime)):
            return _failed(status, "error", "SyntaxError", problem)
        return _failed(status, "error", "ExitStatus", f"the code ended with status {status}, that of its last command")


def _failed(code: int, status: str, kind: str, message: str) -> Outcome:
    outcome = Outcome(status).fail(kind, message)
    outcome.exit_code = code
    return outcome


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _SHOWN_CHARS_MAX else line[:_SHOWN_CHARS_MAX] + "..."
