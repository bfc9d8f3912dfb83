"""A kernel of another language: a child process of PID 1, started at first use, kept until the sandbox ends.

PID 1 is the Python kernel and owns the channel. While a companion runs code, PID 1's main thread sits in a private
event loop: it passes the companion's tool calls on (`toolcalls.relay`), reaps what became an orphan, and waits for the
end. The companion writes to the sandbox's own stdout and stderr. How code and outcome travel between PID 1 and the
process is each companion's own matter (`node.companion`, `bash.companion`).

INVARIANT: `run` returns one outcome whatever the process does: an answer, its death, or an interrupt that it does not
obey within `INTERRUPT_GRACE_S`, after which it is killed. Python's variables and all files stay.
"""

import asyncio
import os
import signal
from abc import ABC, abstractmethod
from asyncio import events
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from moonpool_guest import calls_socket
from moonpool_guest.python.environment import Variables
from moonpool_guest.python.execution import Outcome

INTERRUPT_GRACE_S = 0.6
"""Below the host's grace of 1 s, which ends the whole sandbox."""

_REAP_EVERY_S = 0.5
_DEFAULT_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}  # whatever Python code ignores


class UnavailableError(Exception):
    """The language's runtime cannot be started here. The message names it and the remedy."""


class Companion(ABC):
    """Base of the companions: one process, one loop, one execution at a time. Main thread of PID 1 only."""

    language = ""
    process_name = ""

    def __init__(self, runtime: str) -> None:
        """`runtime` is the program's path inside the sandbox; empty when the host has none."""
        self._runtime = runtime
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process: ChildProcess | None = None
        self._interrupted = False
        self.variables: Variables | None = None  # of this execution
        self._final = True  # nothing runs here after this execution
        self._killer: asyncio.TimerHandle | None = None
        self.reap: Callable[[], None] = _nothing  # set by the kernel

    # --- for the subclass

    @abstractmethod
    async def _execute(self, source: bytes, name: str, *, final: bool, result_bytes_max: int) -> Outcome:
        """Run code in the process, starting it if need be. Raises UnavailableError, ProcessGoneError."""

    @abstractmethod
    async def _rehearse(self) -> None:
        """Start the process and let it do once what every execution does, without a trace."""

    def _pass_interrupt(self) -> None:
        """Interrupt the code that the process runs. On the loop. Default: SIGINT to the process."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)

    # --- for the kernel

    @property
    def own_loop(self) -> "asyncio.AbstractEventLoop | None":
        """The loop, if there is one."""
        return self._loop

    @property
    def pids(self) -> "set[int]":
        """Children of PID 1 that are not orphans."""
        return {self._process.pid} if self._process is not None else set()

    def run(self, source: bytes, name: str, *, final: bool, result_bytes_max: int) -> Outcome:
        """Run `source` and return its outcome. `final` says that nothing will run here afterwards."""
        self._final = final
        outcome = self._complete(self._execute(source, name, final=final, result_bytes_max=result_bytes_max))
        return outcome if outcome is not None else Outcome("ok")

    def rehearse(self) -> Outcome:
        """Make the next execution start at once."""
        return self._complete(self._rehearse()) or Outcome("ok")

    def interrupt(self) -> None:
        """Interrupt what runs. Called by PID 1's signal handler, between any two of its own steps."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        self._interrupted = True
        if self._killer is None and self._loop is not None:
            self._killer = self._loop.call_later(INTERRUPT_GRACE_S, self._give_up)
        self._pass_interrupt()

    def _give_up(self) -> None:
        if self._process is not None:
            self._process.kill_group()

    def _complete(self, work: "Coroutine[Any, Any, Outcome | None]") -> "Outcome | None":
        if not self._runtime:
            work.close()
            return unavailable(self.language, self.process_name)
        events._set_running_loop(None)  # an interrupt may have kept a loop of the code from putting it back
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        self._interrupted = False
        reaping = self._loop.create_task(self._reap_now_and_then())
        try:
            return self._loop.run_until_complete(calls_socket.while_served(work))
        except UnavailableError as error:
            return Outcome("ok").fail("LanguageUnavailable", str(error))
        except ProcessGoneError as error:
            self._process = None
            return self._died(error.status)
        finally:
            reaping.cancel()
            if self._killer is not None:
                self._killer.cancel()
                self._killer = None
            self._loop.run_until_complete(asyncio.gather(reaping, return_exceptions=True))

    async def _reap_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_REAP_EVERY_S)
            self.reap()

    def _died(self, status: int) -> Outcome:
        lost = self._lost
        code = os.waitstatus_to_exitcode(status)
        if self._interrupted:
            return _with_code(130, Outcome("interrupted").fail("KeyboardInterrupt", f"it was killed{lost}"))
        if code >= 0:
            message = f"{self.process_name} ended with status {code} before the code was done; do not end it yourself"
            return _with_code(code, Outcome("ok").fail("KernelExited", message + lost))
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        message = f"{self.process_name} died ({name}){lost}"
        return _with_code(128 - code, Outcome("ok").fail("KernelKilled", message))

    @property
    def _lost(self) -> str:
        """What the end of the process costs later executions."""
        return "" if self._final else f"; the variables of this session's {self.process_name} are lost"


class ProcessGoneError(Exception):
    """The companion's process has ended; `status` is its wait status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"it ended with wait status {status}")
        self.status = status


class ChildProcess:
    """A child in a process group of its own, with stdin from nowhere and PID 1's stdout and stderr."""

    def __init__(self, command: "list[str]", variables: "dict[str, str]", fds: "dict[int, int]") -> None:
        """Start `command`. `fds` says which descriptor of ours becomes which of the child's (above 2).

        posix_spawn, not fork: a fork of a large PID 1 takes 10 ms. Raises OSError.
        """
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)
        ]
        actions += [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in fds.items()]
        self.pid = os.posix_spawn(
            command[0],
            command,
            variables,
            file_actions=actions,
            setpgroup=0,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
        self._pidfd = os.pidfd_open(self.pid)
        self._status: int | None = None

    async def wait(self) -> int:
        """Wait for the end and return the wait status. May be awaited several times, and cancelled."""
        loop = asyncio.get_running_loop()
        while self._status is None:
            gone = asyncio.Event()
            loop.add_reader(self._pidfd, gone.set)
            try:
                await gone.wait()
            finally:
                loop.remove_reader(self._pidfd)
            self._collect()
        return self._status

    def _collect(self) -> None:
        try:
            _, self._status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            self._status = 0  # code in PID 1 was faster
        os.close(self._pidfd)

    async def race(self, work: "Coroutine[Any, Any, Any]") -> Any:
        """Await `work`, or raise ProcessGoneError if the process ends first."""
        working, ending = asyncio.ensure_future(work), asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ProcessGoneError(ending.result())
            return working.result()
        finally:
            for task in (working, ending):
                task.cancel()
            await asyncio.gather(working, ending, return_exceptions=True)

    def send_signal(self, number: int) -> None:
        """Signal the process itself; nothing happens when it is gone."""
        if self._status is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill_group(self) -> None:
        """End the process and what is still in its group."""
        self.signal_group(signal.SIGKILL)

    def signal_group(self, number: int) -> None:
        """Signal the process and what is still in its group; nothing happens when it is gone."""
        if self._status is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


def make(language: str, runtimes: "dict[str, str]") -> "Companion | None":
    """The companion for `language`, not started yet; None for a language that nobody here knows."""
    if language == "node":
        from moonpool_guest.node.companion import NodeCompanion

        version, tools = runtimes.get("node version", ""), runtimes.get("node tools", "")
        return NodeCompanion(runtimes.get("node", ""), version=version, tools=tools)
    if language == "bash":
        from moonpool_guest.bash.companion import BashCompanion

        return BashCompanion(runtimes.get("bash", ""))
    return None


def unavailable(language: str, program: str) -> Outcome:
    """The outcome of code in a language that this host has no runtime for."""
    message = f"{program or language} is not installed on this host; install it, or write the code in Python"
    return Outcome("ok").fail("LanguageUnavailable", message)


def child_variables(extra: "dict[str, str] | None" = None) -> "dict[str, str]":
    """The environment that a companion starts with: PID 1's own, without what is Python's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **(extra or {})}


def _with_code(code: int, outcome: Outcome) -> Outcome:
    outcome.exit_code = code & 0xFF
    return outcome


def _nothing() -> None:
    """Before the kernel says how to reap."""
