"""The Python kernel: waits for orders on the channel, runs code, says how it ended.

It is PID 1 of its sandbox, so it reaps orphans between executions, and it keeps the kernels of other languages
(`moonpool_guest.companion`). It ends when the host closes the channel.
"""

import _thread
import asyncio
import builtins
import faulthandler
import importlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from moonpool_guest import companion, files, toolcalls
from moonpool_guest.channel import ChannelGoneError, GuestChannel
from moonpool_guest.checkpoints import twins
from moonpool_guest.files import made
from moonpool_guest.python import (
    async_tools,
    environment,
    finding,
    handoff,
    installed,
    ipython,
    nesting,
    own_signals,
    pictures,
    sources,
    tracebacks,
    unawaited,
)
from moonpool_guest.python.execution import Interpreter, Outcome
from moonpool_guest.python.helping import Help
from moonpool_guest.python.recorder import NondeterminismRecorder
from moonpool_wire.channel import Channel
from moonpool_wire.limits import BLOB_BYTES_MAX_TO_GUEST, PROTOCOL_VERSION

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/moonpool/moonpool_guest/bin",
    "HOME": "/home/user",
    "USER": "sandbox",
    "TMPDIR": "/tmp",  # noqa: S108  the sandbox's own
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}
# Without a network what installs packages fails at once, instead of trying again until the code's time is over.
_OFFLINE = {"PIP_NO_INDEX": "1", "NPM_CONFIG_OFFLINE": "true", "UV_OFFLINE": "1"}
_IMPORT_ROOTS = ("/wrappers/current", "/workspace")
_LIBRARY = ("actions", "skills")
_RUNTIME_VARIABLES = {
    "MOONPOOL_NODE": "node",
    "MOONPOOL_NODE_TOOLS": "node tools",
    "MOONPOOL_NODE_VERSION": "node version",
    "MOONPOOL_BASH": "bash",
}
_runtimes: "dict[str, str]" = {}  # paths inside the sandbox, by language
_REHEARSED = (b"result = 1", b"import asyncio\nawait asyncio.sleep(0)\nprint(end='')")
_REHEARSALS = 10  # CPython adapts the bytecode of a function that was called eight times


def warm_up(variables: "list[str]", *, alone: bool = False) -> None:
    """Make this process what a kernel is, as far as one process can do it for all that are forked from it.

    Done once in the zygote: what is written here costs no page fault in a sandbox. `variables` of the environment
    (BLAS threads, font caches) are kept, everything else is replaced; those that name runtimes are taken in.
    """
    for name in ("dis", "traceback"):
        importlib.import_module(name)
    nesting.allow_nested_run()
    builtins.help = Help()  # pyright: ignore[reportAttributeAccessIssue]  # for want of `site`
    _runtimes.update({_RUNTIME_VARIABLES[name]: os.environ[name] for name in _RUNTIME_VARIABLES if name in os.environ})
    kept = {name: os.environ[name] for name in variables if name in os.environ and name not in _RUNTIME_VARIABLES}
    if not alone:  # what is forked from here starts another language in 3 ms instead of 10
        for language in _runtimes:
            companion.make(language, _runtimes)
    os.environ.clear()
    os.environ.update({**ENVIRONMENT, **({} if "HTTPS_PROXY" in kept else _OFFLINE), **kept})
    ipython.prepare()
    installed.prepare()
    tracebacks.hide_libraries()
    unawaited.install()
    sys.path[:0] = _IMPORT_ROOTS
    finding.install()
    sys.argv[:] = [""]
    faulthandler.enable(2)
    _restore_streams(fresh=True)  # on descriptors 0 to 2, which in every sandbox are its own


def rehearse() -> None:
    """Be a kernel for some small executions, and undo what is left of it but the memory that it wrote to.

    Done once in the zygote: CPython adapts bytecode where it lies, and what is adapted here is not copied, page by
    page, in every sandbox (an execution touched 960 pages without this, 800 with it).
    """
    kept = sys.modules["__main__"], sys.unraisablehook, signal.getsignal(signal.SIGINT)
    ours, theirs = socket.socketpair()
    orders = Channel(blob_bytes_max=BLOB_BYTES_MAX_TO_GUEST)
    order = {"t": "execute", "run": "", "name": "<rehearsal>", "final": False, "result_bytes_max": 1024, "record": True}
    for source in _REHEARSED * _REHEARSALS:
        orders.send(json.dumps(order).encode(), source)
    orders.send(json.dumps({"t": "close"}).encode())
    with ours:
        ours.sendall(orders.data_to_send())
        kernel = Kernel()
        kernel.serve(theirs.detach())
    kernel.end()
    sys.modules["__main__"], sys.unraisablehook, handler = kept
    signal.signal(signal.SIGINT, handler)


def main(kernel: "Kernel", fd: int) -> None:
    """Serve orders until the channel closes. Does not return."""
    kernel.serve(fd)
    os._exit(0)


def report_failure(fd: int, step: str, message: str) -> None:
    """Tell the host which confinement step failed. The channel may stand at another number if descriptors failed."""
    channel = Channel(blob_bytes_max=BLOB_BYTES_MAX_TO_GUEST)
    channel.send(json.dumps({"t": "failed", "step": step, "message": message[:1000]}).encode())
    try:
        os.write(fd, channel.data_to_send())
    except OSError:
        os._exit(70)


class Kernel:
    """One interpreter behind one channel. Made in the zygote, it serves in a sandbox."""

    def __init__(self) -> None:
        self._channel = GuestChannel(blob_bytes_max=BLOB_BYTES_MAX_TO_GUEST)
        self._interpreter = Interpreter.main()
        self._pid = 0
        self._manifest: object = None
        self._companions: dict[str, companion.Companion] = {}
        self._companion: companion.Companion | None = None  # the one that runs code now
        self._recorder = NondeterminismRecorder()
        self._variables: environment.Variables | None = None  # of the next execution
        self._twins = twins.Twins(self._channel, self._move, self._loops)
        nesting.settle_interrupt[:] = [self._channel.hold.settle]
        signal.signal(signal.SIGINT, self._on_interrupt)
        sys.unraisablehook = self._on_unraisable

    def serve(self, fd: int) -> None:
        """Say ready on the channel `fd`, then run what comes."""
        _reseed()
        self._pid = os.getpid()
        self._channel.open(fd)
        self._channel.send(
            {
                "t": "ready",
                "protocol": PROTOCOL_VERSION,
                "pid": self._pid,
                "language": "python",
                "version": sys.version.split()[0],
            }
        )
        while True:
            try:
                head, body = self._channel.wait_control()
                if head["t"] == "variables":
                    self._variables = environment.Variables(head, body)
                elif head["t"] == "execute":
                    self._execute(head, body)
                    self._reap()
                elif head["t"] == "nondeterminism_log":
                    self._recorder.take(head["run"], body)
                elif head["t"] in files.ORDERS:
                    files.serve(self._channel, head, body)
                elif head["t"] in twins.ORDERS:
                    self._twins.serve(head)
                elif head["t"] == "close":
                    return
            except ChannelGoneError:
                return

    def _move(self) -> None:
        """This process was forked from the one that was the kernel, and is it now."""
        self._pid = os.getpid()

    def _loops(self) -> "list[asyncio.AbstractEventLoop]":
        loops = [self._interpreter.own_loop, *(one.own_loop for one in self._companions.values())]
        return [loop for loop in loops if loop is not None and not loop.is_closed()]

    def end(self) -> None:
        """Close what it has open, in a process that lives on."""
        self._channel.close()
        self._interpreter.end()

    def _execute(self, head: "dict[str, Any]", source: bytes) -> None:
        self._forget_old_wrappers(head.get("manifest"))
        installed.refresh()
        _restore_streams()
        before = None if head.get("rehearse") else self._snapshot()
        toolcalls.install(self._channel, str(head.get("name", "")))
        pictures.begin(self._channel)
        self._recorder.start(head)
        variables, self._variables = self._variables, None
        if variables is not None:
            variables.set()
        try:
            outcome = self._run(head, source, variables)
            self._channel.hold.settle()
        except KeyboardInterrupt:  # after the end of the code, e.g. while its result was made into JSON
            outcome = Outcome("interrupted").fail("KeyboardInterrupt", "the execution was interrupted")
        except BaseException as error:  # out of memory in our own code
            outcome = Outcome("ok").fail(type(error).__name__, "the kernel could not finish the execution")
        if variables is not None:
            variables.put_back()
        self._recorder.stop()
        self._companion = None
        self._channel.hold.forget()
        toolcalls.install(None)
        pictures.end()
        _flush()
        if os.getpid() != self._pid:  # a child that the code forked and that ran to the end of the code
            os._exit(outcome.exit_code or int(outcome.error is not None))
        self._tell_files(head["run"], before)
        self._recorder.hand_over(self._channel, head["run"])
        self._channel.wait_sent()  # pictures
        done: dict[str, Any] = {
            "t": "done",
            "run": head["run"],
            "status": outcome.status,
            "exit_code": outcome.exit_code,
            "error": outcome.error,
            "has_result": outcome.result is not None,
        }
        if outcome.last is not None:
            done["has_last"] = True
        if outcome.note:
            done["note"] = outcome.note
        self._channel.send(done, outcome.result or outcome.last or b"")

    @staticmethod
    def _snapshot() -> "made.Snapshot | None":
        try:
            return made.snapshot()
        except BaseException:  # earlier code of the session has changed what this stands on
            return None

    def _tell_files(self, run: object, before: "made.Snapshot | None") -> None:
        try:
            if before is not None:
                made.tell(self._channel, run, before)
        except ChannelGoneError:
            raise
        except BaseException:
            pass  # out of memory in our own code; the execution has its outcome all the same

    def _run(self, head: "dict[str, Any]", source: bytes, variables: "environment.Variables | None") -> Outcome:
        language, rehearse = str(head.get("language", "python")), bool(head.get("rehearse"))
        if language == "python":
            runner = Interpreter.rehearsal() if rehearse else self._interpreter
        else:
            runner = self._companion = self._keep(language)
            if runner is None:
                return companion.unavailable(language, language)
            if rehearse:
                return runner.rehearse()
            runner.variables = variables
        options: dict[str, Any] = {"final": bool(head["final"]), "result_bytes_max": int(head["result_bytes_max"])}
        if head.get("ipython") and language == "python":
            if not ipython.is_available():
                return Outcome("ok").fail(
                    "LanguageUnavailable", "this environment has no IPython; use the environment data"
                )
            options["display"] = self._channel
        outcome = runner.run(source, str(head["name"]), **options)
        if language != "python":
            outcome.result = outcome.result and handoff.without_blobs(outcome.result)
            outcome.last = outcome.last and handoff.without_blobs(outcome.last)
        return outcome

    def _keep(self, language: str) -> "companion.Companion | None":
        if language not in self._companions and (made := companion.make(language, _runtimes)) is not None:
            made.reap = self._reap
            self._companions[language] = made
        return self._companions.get(language)

    def _reap(self) -> None:
        _reap_orphans(set[int]().union(*(one.pids for one in self._companions.values())))

    def _on_interrupt(self, _number: int, frame: "FrameType | None") -> None:
        """Interrupt the code, if that is what runs.

        INVARIANT: KeyboardInterrupt is raised inside `Interpreter.run` only, whose caller catches it. A flag that is
        set around the call would leave gaps in which an interrupt ends the kernel.
        """
        if self._companion is not None:
            self._companion.interrupt()
            return
        frame = own_signals.sender(frame)
        hold, outer = self._channel.hold, frame
        if hold.has_come():
            return
        while outer is not None and outer.f_code is not Interpreter.run.__code__:
            outer = outer.f_back
        if outer is None or frame is None:
            return
        if (loop := nesting.loop_at_work(frame)) is not None:
            hold.note()
            nesting.call_next(loop, hold.settle)
        elif nesting.is_in_asyncio(frame):
            hold.note()
            try:
                _thread.start_new_thread(_soon, (hold.send_again,))
            except RuntimeError:  # the sandbox may have no more threads: better a lost callback than no interrupt
                hold.settle()
        else:
            hold.interrupt()

    def _on_unraisable(self, what: "sys.UnraisableHookArgs") -> None:
        """An interrupt that fell into a `__del__` or a weakref's callback, which cannot raise, comes again.

        INVARIANT: as a note, which ends with the execution: a signal alone could interrupt the next one.
        """
        if what.exc_type is not KeyboardInterrupt:
            sys.__unraisablehook__(what)
            return
        self._channel.hold.note()
        with suppress(RuntimeError):  # without a thread the note is raised later
            _thread.start_new_thread(_soon, (self._channel.hold.send_again,))

    def _forget_old_wrappers(self, manifest: object) -> None:
        """Import wrappers afresh when the host has published another tree (the tools changed)."""
        if manifest != self._manifest:
            first, self._manifest = self._manifest is None, manifest
            _link_library(fresh=first)
            if first:  # nothing of it was imported yet; looking at every name would touch a page for each
                for root in _IMPORT_ROOTS:
                    sys.path_importer_cache.pop(root, None)
                return
            for path in [p for p in sys.path_importer_cache if p.startswith(_IMPORT_ROOTS)]:
                del sys.path_importer_cache[path]
            for name in [n for n in sys.modules if n.partition(".")[0] in ("servers", "mcptools", *_LIBRARY)]:
                del sys.modules[name]
            async_tools.renew()


def _link_library(*, fresh: bool) -> None:
    """Let code find saved actions and skills in its folder, where it has nothing of that name and there are some.

    `fresh`: no link was made here before.
    """
    if os.lstat(_IMPORT_ROOTS[1]).st_dev != os.lstat(ENVIRONMENT["HOME"]).st_dev:
        return  # a folder of the host: nothing of ours is put there
    for name in _LIBRARY:
        place, link = f"{_IMPORT_ROOTS[0]}/{name}", f"{_IMPORT_ROOTS[1]}/{name}"
        try:
            if os.path.isdir(place):
                os.symlink(place, link)
            elif not fresh and os.readlink(link) == place:
                os.unlink(link)
        except OSError:
            pass  # the code has a file or folder there, or never had any of these


def _soon(send: "Callable[[], None]") -> None:
    """In a thread, but not `threading`'s: its locks may be held by what was interrupted."""
    time.sleep(0.001)
    send()


def _reseed() -> None:
    """Give this process random numbers of its own. The `random` module has done so itself at the fork."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


def _restore_streams(*, fresh: bool = False) -> None:
    """Give user code working standard streams again if it closed them.

    Text that is not UTF-8 is escaped, never raises.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        stream = getattr(sys, name, None)
        if fresh or getattr(stream, "closed", False) or not hasattr(stream, "readline" if mode == "r" else "write"):
            buffering = 1 if mode == "w" else -1
            opened = open(  # noqa: SIM115  lives as long as the process
                fd, mode, buffering, encoding="utf-8", errors="backslashreplace", closefd=False
            )
            setattr(sys, name, opened)
            setattr(sys, f"__{name}__", opened)


def _flush() -> None:
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        try:
            getattr(sys, name).flush()
        except BaseException:
            pass  # code may have put anything there


def _reap_orphans(kept: "set[int]") -> None:
    """Collect zombies that nobody in this process waits for; leave the children of `subprocess` to their owners."""
    try:
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
    except ChildProcessError:
        return
    for pid in _children_in_proc() - _known_children() - kept:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass  # a thread of the code was faster


def _children_in_proc() -> "set[int]":
    """Our children. The sandbox has its own /proc, whose processes are few (RLIMIT_NPROC)."""
    children: set[int] = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                        children.add(int(name))
            except OSError:
                pass
    return children


def _known_children() -> "set[int]":
    known: set[int] = set()
    if (multiprocessing := sys.modules.get("multiprocessing.process")) is not None:
        known.update(child.pid for child in multiprocessing._children)
    if (subprocess := sys.modules.get("subprocess")) is not None:
        import gc

        known.update(o.pid for o in gc.get_objects() if issubclass(type(o), subprocess.Popen) and o.returncode is None)
    return known


def serve_alone(fds: "list[int]", program_fd: int, confinement: "dict[str, Any]", variables: "list[str]") -> None:
    """Entry of the `bubblewrap` backend: PID 1 of its own outer sandbox confines itself and becomes the kernel."""
    from moonpool_guest import confine, linux

    sources.install()
    own_signals.install()
    pictures.install()
    with open(program_fd, "rb") as file:
        program = file.read()
    warm_up(variables, alone=True)
    confine.reset_signals()
    try:
        confine.confine_alone(confinement, [fds[0], 1, 2, *fds[1:]], program=linux.FilterProgram(program))
        main(Kernel(), confine.CHANNEL_FD)
    except confine.StepFailedError as error:
        report_failure(confine.CHANNEL_FD, error.step, str(error.reason))
    except BaseException as error:
        report_failure(confine.CHANNEL_FD, "start", repr(error))
    os._exit(71)
