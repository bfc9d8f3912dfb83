"""PID 1 of a sandbox whose session keeps checkpoints. See `moonpool_guest.checkpoints`.

It was forked before any code ran and never runs any. It is the twin of the first checkpoint itself.

When the kernel in use ends by itself, whatever it left is ended, the host is told, and a twin goes on as it says. The
dead one may have left half a frame in the channel, in either direction: `GuestChannel.begin_anew`.

INVARIANT: it answers every request of the kernel, or ends. While a twin gets ready the kernel in use lives, so a
failure there loses nothing. A kernel that ends before the host could tell it to keep or to put back something, or
while it does, ends the sandbox with its own status.
"""

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from moonpool_guest import linux
from moonpool_guest.channel import ChannelGoneError, GuestChannel
from moonpool_guest.checkpoints import links, obstacles
from moonpool_guest.checkpoints.saved import NotKeptError, SavedFiles

_NO_ROOM = "the sandbox can have no more processes or memory"
_ENDED = "its process was ended by the code"
_LOST = 71
_ROUNDS_MAX = 1000
_PAUSE_S = 0.002


class Supervisor:
    """Serves one sandbox. `serve` returns in every kernel that is forked here."""

    def __init__(self, prepare: Callable[[], None], channel: GuestChannel, mark: bytes) -> None:
        """`prepare` is called in each kernel that is forked, before anything else."""
        self._prepare, self._channel, self._mark = prepare, channel, mark
        self.report, self._reports = links.pair()  # of all processes: theirs, and ours
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._files = SavedFiles()
        self._twins: dict[int, tuple[int, socket.socket | None]] = {}  # checkpoint -> pid and link; ours has none
        self._kernel: tuple[int, socket.socket] | None = None
        self._asked: int | None = None  # the checkpoint whose twin is awaited
        self._restoring: tuple[int, int] | None = None  # checkpoint and order
        self._ended: set[int] = set()  # twins that somebody else has ended
        self._killed: set[int] = set()  # by us, and not yet reaped
        self._dying: set[int] = set()  # of these, whom nobody waits for
        self._fallen: int | None = None  # the kernel in use has ended by itself, with this status
        self._has_fallen = False  # and no other is in use yet
        self._poll = select.poll()

    def serve(self, checkpoint: int, order: int) -> "tuple[int, int]":
        """Supervise; `checkpoint` is the first, `order` is answered by the first kernel.

        Returns in each kernel that is forked here, with the order to answer and the number of blobs sent before.
        Raises NotKeptError.
        """
        self._files.save(checkpoint)
        self._twins[checkpoint] = os.getpid(), None
        self._restoring = checkpoint, order
        if (forked := self._fork(order, 0)) is not None:
            return forked
        signal.signal(signal.SIGCHLD, _wake_up)
        signal.signal(signal.SIGINT, self._interrupt)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        linux.hide_proc_files()
        for fd in (self._reports.fileno(), self._wake):
            self._poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if (forked := self._hear(fd) or self._without_kernel()) is not None:
                    return forked

    def _hear(self, fd: int) -> "tuple[int, int] | None":
        if fd == self._wake:
            self._reap()
        elif fd == self._reports.fileno():
            self._hear_report()
        elif self._is_kernel(fd):
            return self._hear_kernel()
        return None

    def _without_kernel(self) -> "tuple[int, int] | None":
        """After each event, since whoever looks around reaps, too."""
        if self._fallen is not None:
            return self._go_on(self._fallen)
        if self._has_fallen and self._restoring is None:  # the twin that was to go on had been ended as well
            return self._await_restore()
        return None

    def _is_kernel(self, fd: int) -> bool:
        return self._kernel is not None and self._kernel[1].fileno() == fd

    def _fork(self, order: int, blobs: int) -> "tuple[int, int] | None":
        """Fork a kernel that has run nothing. None in PID 1."""
        if os.fork():
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        linux.own_proc_files()
        for end in (self._reports, *(link for _, link in self._twins.values()), self._kernel and self._kernel[1]):
            if end:
                end.close()
        os.close(self._wake)
        os.close(self._woken)
        self._twins.clear()
        self._files = SavedFiles()
        self._prepare()
        return order, blobs

    def _interrupt(self, *_: object) -> None:
        if self._kernel is not None:
            with suppress(ProcessLookupError):
                os.kill(self._kernel[0], signal.SIGINT)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._wake, 512):
                pass
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if self._kernel is not None and pid == self._kernel[0]:
                    code = os.waitstatus_to_exitcode(status)
                    self._fallen = code if code >= 0 else 128 - code
                    continue
                twin = next((number for number, (its, _) in self._twins.items() if its == pid), None)
                if twin is not None:
                    self._ended.add(pid)
                if pid not in self._killed and self._is_awaited(twin):
                    self._give_up()
                self._killed.discard(pid)
                self._dying.discard(pid)

    def _is_awaited(self, twin: "int | None") -> bool:
        """Whether the one that ended, the twin of this checkpoint or none, was to report."""
        if self._restoring is None:
            return twin is None and self._asked is not None
        _, link = self._twins.get(self._restoring[0], (0, None))
        return twin == (None if link is None else self._restoring[0])

    def _give_up(self) -> None:
        """The process that is awaited has ended: nobody else may, while there are only the kernel and its twins."""
        if self._kernel is None:
            if not self._has_fallen or self._restoring is None:
                os._exit(_LOST)
            (_, order), self._restoring = self._restoring, None
            self._refuse(order, _ENDED)  # with the kernel, by its code: the host may know another
            return
        if self._asked is not None:
            self._files.drop(self._asked)
        self._asked = self._restoring = None
        self._answer({"refused": _NO_ROOM})

    # --- what the others say

    def _hear_report(self) -> None:
        said, link = links.receive(self._reports)
        what = said.get("op")
        if link is None:
            return
        if what == "twin" and self._asked is not None and said.get("id") == self._asked:
            self._end_twin(self._asked)
            self._twins[self._asked] = links.number(said, "pid"), link
            self._asked = None
            self._answer({"refused": ""})
        elif what == "kernel" and self._restoring is not None and said.get("order") == self._restoring[1]:
            self._put_in_use(links.number(said, "pid"), link)
        else:
            link.close()

    def _hear_kernel(self) -> "tuple[int, int] | None":
        assert self._kernel is not None
        said, link = links.receive(self._kernel[1])
        if link is not None:
            link.close()
        what = said.get("op")
        if what == "check":
            self._check(said)
        elif what == "failed":
            if self._asked is not None:
                self._files.drop(self._asked)
                self._asked = None
        elif what == "drop":
            self._drop(links.numbers(said, "ids"))
        elif what == "restore":
            return self._restore(links.number(said, "id"), links.number(said, "order"), links.number(said, "blob"))
        elif not said:  # it has ended, or closed its end
            self._poll.unregister(self._kernel[1].fileno())
        return None

    def _answer(self, said: "dict[str, Any]") -> None:
        if self._kernel is not None:
            with suppress(OSError):
                self._kernel[1].send(json.dumps(said).encode())

    # --- checkpoints

    def _check(self, said: "dict[str, Any]") -> None:
        checkpoint = links.number(said, "id")
        refused, full = self._obstacles(said), False
        if not refused:
            try:
                self._files.save(checkpoint)
            except NotKeptError as error:
                refused, full = str(error), error.full
        if not refused:
            self._asked = checkpoint
        self._answer({"refused": refused, "full": full})

    def _obstacles(self, said: "dict[str, Any]") -> str:
        """What the kernel has that no twin could have as well, empty if nothing."""
        assert self._kernel is not None
        names = links.texts(said, "threads")
        return obstacles.told(self._kernel[0], self._others(), threads=names, known=links.numbers(said, "fds"))

    def _others(self) -> "list[tuple[int, str]]":
        """Processes that are neither ours, nor the kernel, nor its twins."""
        self._reap()
        kernel = () if self._kernel is None else (self._kernel[0],)
        return obstacles.processes({1, *self._dying, *(pid for pid, _ in self._twins.values()), *kernel})

    def _drop(self, checkpoints: "list[int]") -> None:
        for checkpoint in checkpoints:
            self._end_twin(checkpoint)
            self._files.drop(checkpoint)

    def _end_twin(self, checkpoint: int) -> None:
        pid, link = self._twins.pop(checkpoint, (0, None))
        if link is not None:
            link.close()
            self._kill(pid)
        self._ended.discard(pid)

    def _kill(self, pid: int) -> None:
        if pid > 1 and pid not in self._ended:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self._killed.add(pid)
                self._dying.add(pid)

    # --- going back

    def _go_on(self, status: int) -> "tuple[int, int] | None":
        """The kernel has ended by itself: end what it left, tell the host, and put back what it says.

        Returns what `serve` does in a kernel that is forked here, None in PID 1.
        """
        self._reap()
        if self._kernel is None or self._asked is not None or self._restoring is not None:
            os._exit(status)
        with suppress(KeyError):
            self._poll.unregister(self._kernel[1].fileno())
        self._kernel[1].close()
        self._kernel = self._fallen = None
        self._has_fallen = True
        self._end_left(0)
        try:
            self._channel.begin_anew(self._mark, {"t": "kernel_ended", "status": status})
        except ChannelGoneError:
            os._exit(status)
        return self._await_restore()

    def _await_restore(self) -> "tuple[int, int] | None":
        """Put back what the host says, now that no kernel is in use. Returns as `_go_on`."""
        try:
            while self._restoring is None:
                head, _ = self._channel.wait_control()
                if head["t"] == "restore":
                    self._drop(head["drop"])
                    if (forked := self._restore(head["number"], head["order"], 0)) is not None:
                        return forked
        except ChannelGoneError:
            os._exit(_LOST)
        return None

    def _refuse(self, order: int, why: str) -> None:
        if self._kernel is None:
            self._channel.send({"t": "checkpoint_done", "order": order, "refused": why})
        else:
            self._answer({"refused": why})

    def _restore(self, checkpoint: int, order: int, blobs: int) -> "tuple[int, int] | None":
        pid, link = self._twins.get(checkpoint, (0, None))
        if not pid or pid in self._ended or not self._files.has(checkpoint):
            self._refuse(order, _ENDED if pid else "it is not kept any more")
            return None
        self._restoring = checkpoint, order
        if link is None:
            try:
                return self._fork(order, blobs)
            except OSError:
                self._restoring = None
                self._refuse(order, _NO_ROOM)
                return None
        try:
            link.send(json.dumps({"order": order, "blob": blobs, "anew": self._has_fallen}).encode())
        except OSError:
            self._restoring = None
            self._refuse(order, _ENDED)
        return None

    def _put_in_use(self, pid: int, link: socket.socket) -> None:
        """The next kernel waits: end the one in use and what it left behind, put the files back, let it go on."""
        assert self._restoring is not None
        (checkpoint, _), self._restoring = self._restoring, None
        if (was := self._twins[checkpoint][1]) is not None:  # a twin no more
            del self._twins[checkpoint]
            was.close()
        lost = ""
        if (before := self._kernel) is not None:
            self._kernel = None
            with suppress(KeyError):
                self._poll.unregister(before[1].fileno())
            self._end_others(pid, before[0])
            before[1].close()  # not before it is killed: it would answer the order
            lost = self._files.restore(checkpoint)
        elif self._has_fallen:
            lost, self._has_fallen = self._files.restore(checkpoint), False
        self._kernel = pid, link
        self._poll.register(link.fileno(), select.POLLIN)
        self._answer({"op": "go", "lost": lost})

    def _end_others(self, kept: int, kernel: int) -> None:
        """End the kernel before and what it left; that may have started more meanwhile.

        A kernel of one thread waits for our answer, so once it is killed it does nothing more; it needs no waiting for.
        """
        is_quiet = len(os.listdir(f"/proc/{kernel}/task")) == 1
        self._kill(kernel)
        if not is_quiet:
            self._dying.discard(kernel)
        self._end_left(kept)

    def _end_left(self, kept: int) -> None:
        """End all that is neither ours, nor the kernel, nor its twins, nor `kept`."""
        for _ in range(_ROUNDS_MAX):
            others = [pid for pid, _ in self._others() if pid != kept]
            if not others:
                return
            for pid in others:
                self._kill(pid)
                self._dying.discard(pid)
            time.sleep(_PAUSE_S)
        os._exit(_LOST)  # it cannot be stopped, so nothing can be put back


def _wake_up(_number: int, _frame: object) -> None:
    """Python writes to the wakeup descriptor for signals that have a handler."""
