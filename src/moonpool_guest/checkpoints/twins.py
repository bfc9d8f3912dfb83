"""The kernel's side of checkpoints: it leaves twins behind, and hands over to one (`moonpool_guest.checkpoints`)."""

import errno
import json
import os
import selectors
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from moonpool_guest import linux
from moonpool_guest.channel import GuestChannel
from moonpool_guest.checkpoints import links
from moonpool_guest.checkpoints.saved import NotKeptError
from moonpool_guest.checkpoints.supervisor import Supervisor
from moonpool_wire.frames import restart_mark

ORDERS = frozenset({"checkpoint", "restore"})
_BYTES_MAX = 8192
_THREADS_MAX = 8
_NO_ROOM = "the sandbox can have no more processes or memory"
_NO_FILES = "the code has as many files open as it may"
_NO_PID_1 = "the code has closed the descriptors that checkpoints need"


class Twins:
    """Of one kernel. `moved` is called in each process that becomes the kernel."""

    def __init__(
        self, channel: GuestChannel, moved: "Callable[[], None]", loops: "Callable[[], Iterable[Any]]"
    ) -> None:
        """`loops` are the kernel's own event loops, whose descriptors no other process sees."""
        self._channel, self._moved, self._loops = channel, moved, loops
        self._report: socket.socket | None = None  # where processes announce themselves to PID 1
        self._link: socket.socket | None = None  # ours with PID 1
        self._tid_address = 0

    def serve(self, head: "dict[str, Any]") -> None:
        """Carry out an order and answer it; perhaps in another process than the one that got it."""
        order, checkpoint = int(head["order"]), int(head["number"])
        drop = [int(one) for one in head.get("drop", ())]
        answer: dict[str, Any]
        try:
            if head["t"] == "restore":
                answer = self._restore(order, checkpoint, drop)
            elif self._link is None:
                order, answer = self._begin(order, checkpoint, restart_mark(head["token"]))
            else:
                order, answer = self._leave_twin(order, checkpoint, drop)
        except NotKeptError as error:
            answer = {"refused": str(error)}
        except OSError:
            answer = {"refused": _NO_PID_1}
        self._channel.send({"t": "checkpoint_done", "order": order, **answer})

    # --- becoming a kernel

    def _begin(self, order: int, checkpoint: int, mark: bytes) -> "tuple[int, dict[str, Any]]":
        """From PID 1, which has run no code yet: it stays behind as supervisor."""
        self._tid_address = linux.thread_id_address()
        on_interrupt = signal.getsignal(signal.SIGINT)

        def prepare() -> None:
            signal.signal(signal.SIGINT, on_interrupt)

        supervisor = Supervisor(prepare, self._channel, mark)
        order, blobs = supervisor.serve(checkpoint, order)
        os.setpgid(0, 0)  # what code sends to its own group reaches no twin
        self._report = supervisor.report
        return order, self._take_over(order, blobs)

    def _take_over(self, order: int, blobs: int) -> "dict[str, Any]":
        """Be the kernel, once PID 1 says so."""
        said = self._announce({"op": "kernel", "pid": os.getpid(), "order": order}, links.pair())
        if said.get("op") != "go":
            os._exit(70)
        for loop in self._loops():
            _renew(loop)
        self._channel.move(blobs)
        self._moved()
        return {"refused": "", "lost": str(said.get("lost", ""))[:1000]}

    def _announce(self, said: "dict[str, Any]", ends: "tuple[socket.socket, socket.socket]") -> "dict[str, Any]":
        """Report to PID 1, hand it one end of a link of our own, and wait for what it says."""
        assert self._report is not None
        if self._link is not None:
            self._link.close()
        self._link, theirs = ends
        with theirs:
            socket.send_fds(self._report, [json.dumps(said).encode()], [theirs.fileno()])
        return self._hear()

    def _hear(self) -> "dict[str, Any]":
        assert self._link is not None
        data = self._link.recv(_BYTES_MAX)
        if not data:
            raise OSError("PID 1 has closed the link")
        return json.loads(data)

    # --- twins

    def _leave_twin(self, order: int, checkpoint: int, drop: "list[int]") -> "tuple[int, dict[str, Any]]":
        if drop:
            self._say({"op": "drop", "ids": drop})
        self._say({"op": "check", "id": checkpoint, "fds": self._own_descriptors(), "threads": _threads()})
        said = self._hear()
        if refused := said.get("refused"):
            return order, {"refused": str(refused)[:2000], "full": bool(said.get("full"))}
        ends: list[socket.socket] = []
        try:
            ends += links.pair()
            pid = _forked(self._tid_address)
        except OSError as error:
            self._say({"op": "failed"})
            return order, {"refused": _NO_ROOM if error.errno != errno.EMFILE else _NO_FILES}
        if not pid:
            return self._wait(checkpoint, (ends[0], ends[1]))
        for end in ends:
            end.close()
        return order, {"refused": str(self._hear().get("refused"))[:2000]}

    def _wait(self, checkpoint: int, ends: "tuple[socket.socket, socket.socket]") -> "tuple[int, dict[str, Any]]":
        """The life of a twin. Returns when it is the kernel.

        Where PID 1 cannot be reached it ends: an error of a twin must not become an answer to an order.
        """
        try:
            return self._waited(checkpoint, ends)
        except OSError:
            os._exit(70)

    def _waited(self, checkpoint: int, ends: "tuple[socket.socket, socket.socket]") -> "tuple[int, dict[str, Any]]":
        os.setpgid(0, 0)
        places = _places()
        said = self._announce({"op": "twin", "pid": os.getpid(), "id": checkpoint}, ends)
        _seek(places)
        if said["anew"]:
            self._channel.renew()
        return int(said["order"]), self._take_over(int(said["order"]), int(said["blob"]))

    def _restore(self, order: int, checkpoint: int, drop: "list[int]") -> "dict[str, Any]":
        if self._link is None:
            return {"refused": "it is not kept any more"}
        if drop:
            self._say({"op": "drop", "ids": drop})
        self._say({"op": "restore", "id": checkpoint, "order": order, "blob": self._channel.blobs_sent})
        return {"refused": str(self._hear().get("refused"))[:2000]}  # if it says anything, this process lives on

    def _say(self, said: "dict[str, Any]") -> None:
        assert self._link is not None
        self._link.send(json.dumps(said).encode())

    def _own_descriptors(self) -> "list[int]":
        assert self._report is not None
        assert self._link is not None
        own = [self._report.fileno(), self._link.fileno(), self._channel.event_fd]
        for loop in self._loops():
            own += [loop._selector.fileno(), loop._ssock.fileno(), loop._csock.fileno()]
        return own


def _forked(tid_address: int) -> int:
    """Fork a sibling: 0 in it. It has the same state of `random`, which a fork seeds anew."""
    random: Any = sys.modules.get("random")
    state = None
    with suppress(Exception):
        state = random.getstate()
    pid = linux.clone_sibling(tid_address)
    if not pid and state is not None:
        with suppress(Exception):
            random.setstate(state)
    return pid


def _threads() -> "list[str]":
    main = threading.main_thread()
    return [str(thread.name)[:80] for thread in threading.enumerate() if thread is not main][:_THREADS_MAX]


def _places() -> "dict[int, int]":
    """Where open files stand: twins share that with the kernel."""
    places: dict[int, int] = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if stat.S_ISREG(os.fstat(int(name)).st_mode):
                places[int(name)] = os.lseek(int(name), 0, os.SEEK_CUR)
    return places


def _seek(places: "dict[int, int]") -> None:
    for fd, place in places.items():
        with suppress(OSError):
            os.lseek(fd, place, os.SEEK_SET)


def _renew(loop: Any) -> None:
    """Give a loop descriptors of its own: after a fork it shares what it waits with."""
    before, loop._selector = loop._selector, selectors.DefaultSelector()
    for key in list(before.get_map().values()):
        with suppress(OSError, ValueError):
            loop._selector.register(key.fileobj, key.events, key.data)
    before.close()
    loop._close_self_pipe()
    loop._make_self_pipe()
