"""The zygote: a preloaded process inside an outer sandbox that forks sandboxes on request.

Started by the host as `python -s -P -S -B -c "...; main(...)"` with a SEQPACKET control socket. It imports what its
environment wants preloaded, freezes the heap and then only forks: for each request a child in new namespaces, which
`confine` locks in and which then becomes a kernel. It reaps its children and reports their exit statuses.

SECURITY: whatever is in this process's memory can be read by every later sandbox. So it never sees code, arguments,
environment variables or results: requests hold numbers, flags and random slot names; everything else goes over the
sandbox's own channel.
INVARIANT: one thread. A raw clone copies only the calling thread, with every lock as it stands (`linux.clone_into`).

Control protocol, one JSON object a packet. To the zygote: `{"op": "spawn", "id", "slot", "tmpfs_bytes", "tmpfs_inodes",
"limits", "fds"}`, with "uid" where each sandbox has its own, and the descriptors channel, stdout, stderr and those that
let it into its control groups, `fds` in all. From it: `{"op": "hello", ...}`; `{"op": "spawned", "id", "pid"}` with a
pidfd; `{"op": "refused", "id", "reason"}`; `{"op": "exited", "id", "status", "cpu_ms"}` (a wait status, and the
processor time that was used).
"""

import array
import gc
import importlib
import json
import os
import select
import socket
import sys
from typing import Any

from moonpool_guest import confine, linux
from moonpool_guest.python import kernel, own_signals, pictures, sources

_PACKET_BYTES_MAX = 65536
_DECODER = json.JSONDecoder()


def main(control_fd: int, program_fd: int, preload: "list[str]", variables: "list[str]") -> None:
    """Preload, say hello, serve until the control socket closes. `variables` are those that kernels keep."""
    with open(program_fd, "rb") as file:
        program = file.read()
    sources.install()  # before anything preloaded binds a name of these
    own_signals.install()
    pictures.install()
    for name in ("client.mcp_client", *preload):
        importlib.import_module(name)
    kernel.warm_up(variables)
    kernel.rehearse()
    Zygote(socket.socket(fileno=control_fd), program).serve()


class Zygote:
    """Serves spawn requests one at a time and reports exits."""

    def __init__(self, control: socket.socket, program: bytes) -> None:
        self._control = control
        self._program = linux.FilterProgram(program)
        self._kernel = kernel.Kernel()
        self._uid, self._gid = os.getuid(), os.getgid()
        self._tid_address = linux.thread_id_address()
        self._poll = select.poll()
        self._children: dict[int, tuple[int, int]] = {}  # pidfd -> (pid, request id)

    def serve(self) -> None:
        """Run until the host closes the control socket."""
        confine.reset_signals()
        gc.collect()
        linux.collapse_heap()
        gc.freeze()  # pages of old objects are not written to by later collections in the children
        self._poll.register(self._control.fileno(), select.POLLIN)
        self._say({"op": "hello", "pid": os.getpid(), "python": sys.version.split()[0], "threads": _thread_count()})
        while True:
            for fd, _ in self._poll.poll():
                if fd in self._children:
                    self._reap(fd)
                elif not self._serve_request():
                    return

    def _serve_request(self) -> bool:
        packet, ancillary, _, _ = self._control.recvmsg(_PACKET_BYTES_MAX, socket.CMSG_SPACE(4 * 16))
        fds = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        if not packet:
            return False
        try:
            self._spawn(_DECODER.raw_decode(packet.decode())[0], list(fds))
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _spawn(self, request: "dict[str, Any]", fds: "list[int]") -> None:
        if len(fds) != request["fds"]:
            self._say({"op": "refused", "id": request["id"], "reason": f"{len(fds)} descriptors came along"})
            return
        if (threads := _thread_count()) != 1:
            self._say({"op": "refused", "id": request["id"], "reason": f"the zygote has {threads} threads"})
            return
        try:
            pid, pidfd = self._clone(request.get("uid"))
        except OSError as error:
            self._say({"op": "refused", "id": request["id"], "reason": f"clone3: {error.strerror}"})
            return
        if pid == 0:
            self._become_sandbox(request, fds)
        self._poll.register(pidfd, select.POLLIN)
        self._children[pidfd] = (pid, int(request["id"]))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pidfd]))]
        self._control.sendmsg([b'{"op":"spawned","id":%d,"pid":%d}' % (request["id"], pid)], rights)

    def _clone(self, uid: "int | None") -> "tuple[int, int]":
        """Clone a child, under a uid of its own if there is one: its user namespace belongs to who made it, and maps
        that uid alone.
        """
        if uid is None:
            return linux.clone_into(linux.ALL_NAMESPACES, self._tid_address)
        _change_ids(uid, uid)
        try:
            pid, pidfd = linux.clone_into(linux.ALL_NAMESPACES, self._tid_address)
        except OSError:
            _change_ids(self._uid, self._gid)
            raise
        if pid:
            _change_ids(self._uid, self._gid)
        return pid, pidfd

    def _become_sandbox(self, request: "dict[str, Any]", fds: "list[int]") -> None:
        """Run the child's whole life; never return into the zygote's loop."""
        try:
            uid = request.get("uid")
            outer = (self._uid, self._gid) if uid is None else (uid, uid)
            confine.confine(request, fds, outer_uid=outer[0], outer_gid=outer[1], program=self._program)
            kernel.main(self._kernel, confine.CHANNEL_FD)
        except confine.StepFailedError as error:
            kernel.report_failure(confine.CHANNEL_FD, error.step, str(error.reason))
        except BaseException as error:
            kernel.report_failure(confine.CHANNEL_FD, "start", repr(error))
        os._exit(71)

    def _reap(self, pidfd: int) -> None:
        pid, request_id = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        _, status, usage = os.wait4(pid, 0)
        os.close(pidfd)
        cpu_ms = int((usage.ru_utime + usage.ru_stime) * 1000)
        self._control.send(b'{"op":"exited","id":%d,"status":%d,"cpu_ms":%d}' % (request_id, status, cpu_ms))

    def _say(self, message: "dict[str, Any]") -> None:
        self._control.send(json.dumps(message).encode())


def _change_ids(uid: int, gid: int) -> None:
    """INVARIANT: all or nothing; a zygote that stayed between two uids would give the wrong one to others."""
    try:
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError:
        os._exit(71)


def _thread_count() -> int:
    return len(os.listdir("/proc/self/task"))
