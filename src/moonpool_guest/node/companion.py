"""PID 1's side of the Node kernel: starts it, gives it code, passes its tool calls on, says how it ended.

The kernel itself is `kernel.cjs`. It is a whole Node process with V8's own limits: memory that runs out ends it
(`OutOfMemory`), and it can neither be forked nor told by a signal to stop a busy loop; interrupts go over a pipe of
their own to a thread of it.

INVARIANT: a Node process that does not say `ready` in time is killed. Node waits for ever where it may not start its
threads.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import resource
import signal
import socket
import struct
from collections.abc import Generator
from typing import Any

from moonpool_guest import companion, toolcalls
from moonpool_guest.confine import DATA_RESERVED_BYTES_MAX
from moonpool_guest.node.link import BrokenLinkError, Link
from moonpool_guest.python.execution import Outcome

FOLDER = "/workspace"
START_TIMEOUT_S = 15.0
UNSETTLED = "UnsettledAwait"
CALLS_OPEN_MAX = 256
"""The kernel itself keeps below this; more come only from code that writes to the descriptor."""

_LINK_FD, _ALARM_FD = 3, 4
_KERNEL = os.path.join(os.path.dirname(__file__), "kernel.cjs")
_REPORT = "/tmp/.node-fatal-{pid}.json"  # noqa: S108  the sandbox's own
_REPORT_BYTES_MAX = 1 << 20
_FLAGS = (
    "--expose-internals",  # the parser that comes with Node, and what is needed to recover from an interrupt
    "--experimental-vm-modules",
    "--disable-warning=ExperimentalWarning",
    "--disable-warning=UNDICI-EHPA",
    "--disable-warning=internal/test/binding",
    "--no-force-async-hooks-checks",
    "--v8-pool-size=2",
    "--report-on-fatalerror",
    "--report-compact",
    "--report-exclude-network",
    "--report-directory=/tmp",
    f"--report-filename={_REPORT.rpartition('/')[2].format(pid='self')}",
)
_MIB = 1024 * 1024
_RESERVED_BYTES = 1300 * _MIB  # addresses that Node 24 takes before it runs anything
_HEAP_MIB_MIN = 64
_WASM_ADDRESSES_MIN = 16 * 1024**3
_STATUSES = frozenset({"ok", "error", "exit", "interrupted"})
_REHEARSAL = b'const { join } = await import("node:path"); globalThis.result = [join("a", "b")];'


class NodeCompanion(companion.Companion):
    """The Node kernel of one sandbox."""

    language = "node"
    process_name = "Node"

    def __init__(self, runtime: str, *, version: str, tools: str = "") -> None:
        """`tools` is the folder of what strips TypeScript's types; empty or not there yet: none."""
        super().__init__(runtime)
        self._version = tuple(int(part) for part in version.split(".") if part)
        self._tools = tools
        self._link: Link | None = None
        self._alarm = -1
        self._count = 0
        self._number = 0  # of the execution under way; 0 for none
        self._calls: dict[int, asyncio.Task[None]] = {}

    async def _execute(self, source: bytes, name: str, *, final: bool, result_bytes_max: int) -> Outcome:
        link = await self._started()
        order = {"name": name, "final": final, "result_bytes_max": result_bytes_max, "rehearse": False}
        return await self._converse(link, order, source)

    async def _rehearse(self) -> None:
        order = {"name": "", "final": False, "result_bytes_max": _MIB, "rehearse": True}
        await self._converse(await self._started(), order, _REHEARSAL)

    # --- the process

    async def _started(self) -> Link:
        if self._process is not None and self._link is not None:
            return self._link
        self._forget_process()
        link = self._spawn()
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._race(link.receive())  # `ready`
        except TimeoutError:
            await self._end_process()
            raise _not_started(f"did not start within {START_TIMEOUT_S:.0f} s") from None
        except companion.ProcessGoneError as error:
            if self._interrupted:
                raise
            raise _not_started(f"ended while it started ({_told(error.status)})") from None
        except BrokenLinkError:
            await self._end_process()
            raise companion.UnavailableError(f"{self._runtime} is no Node.js that Moonpool can use") from None
        return link

    def _spawn(self) -> Link:
        ours, theirs = socket.socketpair()
        alarm_read, self._alarm = os.pipe()
        os.set_blocking(self._alarm, False)
        # Above what the child's own will be: dup2 must not overwrite one before it is taken.
        sources = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs.fileno(), alarm_read)]
        theirs.close()
        os.close(alarm_read)
        config = json.dumps({"folder": FOLDER, "link": _LINK_FD, "alarm": _ALARM_FD, "tools": self._tools})
        command = [self._runtime, *_FLAGS, *self._wasm_flags(), f"--max-old-space-size={heap_mib()}", _KERNEL, config]
        try:
            variables = {
                k: v for k, v in companion.child_variables().items() if not k.startswith(("NODE_", "MOONPOOL_"))
            }
            if "HTTPS_PROXY" in variables:
                variables |= {"NODE_USE_ENV_PROXY": "1", "NODE_EXTRA_CA_CERTS": variables.get("SSL_CERT_FILE", "")}
            with _more_data(DATA_RESERVED_BYTES_MAX if self._version >= (23,) else 0):
                self._process = companion.ChildProcess(
                    command, variables, {_LINK_FD: sources[0], _ALARM_FD: sources[1]}
                )
        except OSError as error:
            ours.close()
            raise companion.UnavailableError(f"Node cannot be started: {error.strerror}") from error
        finally:
            for fd in sources:
                os.close(fd)
        self._link = Link(ours, asyncio.get_running_loop())
        return self._link

    def _wasm_flags(self) -> "list[str]":
        """Without room for the 8 GiB that V8 reserves for each memory, code checks its bounds itself."""
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        has_flag = self._version >= (22, 2) or (20, 15) <= self._version < (21,)
        return ["--disable-wasm-trap-handler"] if has_flag and 0 <= limit < _WASM_ADDRESSES_MIN else []

    async def _race(self, work: Any) -> Any:
        assert self._process is not None
        try:
            return await self._process.race(work)
        except companion.ProcessGoneError:
            self._forget_process()
            raise

    async def _end_process(self) -> None:
        self._give_up()
        if self._process is not None:
            await self._process.wait()
        self._forget_process()

    def _forget_process(self) -> None:
        self._process = None
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._alarm >= 0:
            os.close(self._alarm)
            self._alarm = -1

    def _pass_interrupt(self) -> None:
        for call in self._calls.values():
            call.cancel()
        if self._number and self._alarm >= 0:
            try:
                os.write(self._alarm, struct.pack(">I", self._number))
            except OSError:
                pass  # full or gone: `_give_up` ends it

    def _died(self, status: int) -> Outcome:
        outcome = super()._died(status)
        if not self._interrupted and os.waitstatus_to_exitcode(status) == -signal.SIGABRT and _ran_out_of_memory():
            code = outcome.exit_code
            message = (
                f"the code needed more memory than the {heap_mib()} MiB that its heap may have; work on less at a time "
                f"or keep large data in Buffers or files{self._lost}"
            )
            outcome = Outcome("ok").fail("OutOfMemory", message)
            outcome.exit_code = code
        return outcome

    # --- one execution

    async def _converse(self, link: Link, order: "dict[str, Any]", source: bytes) -> Outcome:
        self._count += 1
        self._number = self._count
        variables, self.variables = self.variables, None
        if variables is not None:
            link.send({"t": "variables"}, json.dumps(variables.wanted).encode())
        link.send({"t": "execute", "run": self._number, **order}, source)
        if self._interrupted:  # while it was starting
            self._pass_interrupt()
        try:
            outcome = await self._race(self._serve(link, int(order["result_bytes_max"])))
        except BrokenLinkError as error:
            await self._end_process()
            return Outcome("ok").fail("KernelExited", f"the code broke the kernel's own connection: {error}")
        else:
            return self._as_interrupted(outcome)
        finally:
            self._number = 0
            calls = tuple(self._calls.values())
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            self._calls.clear()
            for fd in (1, 2):
                os.set_blocking(fd, True)  # a child that had them may have changed that, for us too

    def _as_interrupted(self, outcome: Outcome) -> Outcome:
        """Code that was cut off at the end of its stack, where nothing could be noted, looks as if it waited."""
        if self._interrupted and outcome.error is not None and outcome.error["type"] == UNSETTLED:
            return Outcome("interrupted").fail("KeyboardInterrupt", "the execution was interrupted")
        return outcome

    async def _serve(self, link: Link, result_bytes_max: int) -> Outcome:
        while True:
            head, body = await link.receive()
            if head.get("t") == "call":
                self._begin_call(link, head, body)
            elif head.get("t") == "refused":
                toolcalls.tell_refused(*(str(head.get(name)) for name in ("server", "tool", "message")))
            elif head.get("t") == "done" and head.get("run") == self._number:
                return _outcome(head, body, result_bytes_max)

    def _begin_call(self, link: Link, head: "dict[str, Any]", body: bytes) -> None:
        call_id, server, tool, line = head.get("id"), head.get("server"), head.get("tool"), head.get("line")
        if not (isinstance(call_id, int) and isinstance(server, str) and isinstance(tool, str)):
            raise BrokenLinkError("a call without a name")
        if len(self._calls) >= CALLS_OPEN_MAX or call_id in self._calls:
            raise BrokenLinkError(f"more than {CALLS_OPEN_MAX} calls at once, or one twice")
        self._calls[call_id] = asyncio.ensure_future(self._pass_call(link, call_id, server, tool, body, line))

    async def _pass_call(self, link: Link, call_id: int, server: str, tool: str, body: bytes, line: object) -> None:
        reply = await toolcalls.relay(
            server, tool, body, line=line if isinstance(line, int) and 0 < line < 2**31 else 0
        )
        self._calls.pop(call_id, None)  # first: the next call may come at once
        link.send({"t": "reply", "id": call_id}, reply)


def _outcome(head: "dict[str, Any]", body: bytes, result_bytes_max: int) -> Outcome:
    """What `done` says. SECURITY: code can forge it, but only its own; types and sizes are checked all the same."""
    status, exit_code, error = head.get("status"), head.get("exit_code"), head.get("error")
    if status not in _STATUSES or not isinstance(exit_code, int) or len(body) > result_bytes_max:
        raise BrokenLinkError("an outcome that is none")
    outcome = Outcome(str(status))
    if isinstance(error, dict):
        said: Any = error  # pyright: ignore[reportUnknownVariableType]
        outcome.fail(str(said.get("type")), str(said.get("message")), retryable=said.get("retryable") is True)
    elif head.get("has_result") is True:
        outcome.result = body
    elif head.get("has_last") is True:
        outcome.last = body
    elif isinstance(note := head.get("note"), str):
        outcome.remark(note)
    outcome.exit_code = exit_code & 0xFF
    return outcome


def _not_started(what: str) -> companion.UnavailableError:
    return companion.UnavailableError(
        f"Node {what}; it needs 10 threads and 1.3 GB of addresses, "
        "so the sandbox's limits on processes and memory may be too low for it"
    )


def _told(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"status {code}" if code >= 0 else f"signal {-code}"


@contextlib.contextmanager
def _more_data(reserved_bytes: int) -> "Generator[None]":
    """A child that is started meanwhile may have so much more data: what it only reserves is not for its code."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        more = soft + reserved_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (more if hard == resource.RLIM_INFINITY else min(more, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def heap_mib() -> int:
    """How large V8's heap may grow, so that a full heap ends the process in V8's own way, which can be told apart."""
    limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in ("AS", "DATA")}
    room = [limits["DATA"] * 3 // 4] if limits["DATA"] != resource.RLIM_INFINITY else []
    if limits["AS"] != resource.RLIM_INFINITY:
        room.append((limits["AS"] - _RESERVED_BYTES) * 3 // 4)
    return max(min(room, default=2048 * _MIB) // _MIB, _HEAP_MIB_MIN)


def _ran_out_of_memory() -> bool:
    """Whether the report that V8's end left says so. It is removed."""
    path = _REPORT.format(pid="self")
    try:
        with open(path, "rb") as file:
            report = json.loads(file.read(_REPORT_BYTES_MAX))
        os.unlink(path)
        return report["header"]["trigger"] == "OOMError"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
