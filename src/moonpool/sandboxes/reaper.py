"""The reaper: the process that starts outer sandboxes and outlives the host long enough to end them.

bubblewrap cannot be killed cleanly in the middle of its own start: the child that it has made waits for a word from it,
has not asked for a parent-death signal yet, and would wait for ever. And a host that gets SIGKILL can clean up nothing.
So outer sandboxes are children of this small process, which

- asks the Linux kernel for every orphan below it (PR_SET_CHILD_SUBREAPER) and kills each on sight: a process whose
  bubblewrap is gone has no business left;
- asks for its outer sandboxes to die with it (PR_SET_PDEATHSIG), before bubblewrap does the same for itself;
- leads a session of its own, so that Ctrl-C and the end of a terminal reach the host alone;
- when the host is gone, ends every outer sandbox and orphan and, without `bye`, removes its folder and its control
  groups. That it is gone, its pidfd says; the end of the socket alone does not.

It is a program of its own: `python -I -S -c "...; main(...)"`, standard library only, one thread. The host's side is
`moonpool.sandboxes.reaper_client`. Packets on the SEQPACKET control socket are words between NUL bytes. To it: `start`,
id, uid (or empty), the host folders to mount for it (`folder_mounts`: JSON, or empty), the descriptor numbers that the
outer sandbox needs, the command; the descriptors stdout, stderr and those come along. Or `end`, id: kill that outer
sandbox. Or `bye`: the host shuts down in order. From it: `started`, id, pid, with a pidfd; `refused`, id, errno;
`ended`, id, wait status.

INVARIANT: `ended` is sent after every orphan of that outer sandbox is gone.
SECURITY: never starts anything as kernel uid 0, whatever it is told.
"""

import array
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import time
from contextlib import suppress

_PACKET_BYTES_MAX = 262_144
_FDS_MAX = 16
_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_RESTORED = (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ)
_FD_MAX = 65_536
_REMOVAL_TRIES, _REMOVAL_PAUSE_S = 100, 0.02
_DYING_S = 10.0  # from the end of the host's sockets to its own; usually less than a millisecond
_libc = ctypes.CDLL(None, use_errno=True)


def main(control_fd: int, host_fd: int, folder: str, groups: "list[str]") -> None:
    """Serve until the host leaves or dies. `host_fd` is its pidfd; `folder` and `groups` go with it if it dies."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    reaper = Reaper(socket.socket(fileno=control_fd), host_fd)
    farewell = reaper.serve()
    end_all_children()
    if not farewell and _has_ended(host_fd):  # one that lives has only dropped us, and may have another
        import shutil  # needed on this one road only

        if folder:
            with suppress(RecursionError):  # code made it too deep; the next start removes it
                shutil.rmtree(folder, ignore_errors=True)
        for group in groups:
            remove_group(group)


class Reaper:
    """Starts outer sandboxes one at a time, and reports each one's end when nothing of it is left."""

    def __init__(self, control: socket.socket, host_fd: int) -> None:
        self._control, self._host_fd = control, host_fd
        self._poll = select.poll()
        self._outer_sandboxes: dict[int, tuple[int, bytes]] = {}  # pidfd -> (pid, id)
        self._orphans: dict[int, int] = {}  # pidfd -> pid
        self._ended: list[tuple[bytes, int]] = []  # those whose orphans may still be dying

    def serve(self) -> bool:
        """Return when there is nobody left to serve; True if the host said farewell."""
        self._poll.register(self._control.fileno(), select.POLLIN)
        self._poll.register(self._host_fd, select.POLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._host_fd:
                    return False
                if fd in self._outer_sandboxes or fd in self._orphans:
                    self._reap(fd)
                elif fd == self._control.fileno() and (farewell := self._serve_packet()) is not None:
                    return farewell

    def _serve_packet(self) -> "bool | None":
        try:
            packet, fds, _, _ = socket.recv_fds(self._control, _PACKET_BYTES_MAX, _FDS_MAX)
        except OSError:
            return False
        try:
            operation, *words = packet.split(b"\0")
            if operation == b"start":
                return self._start(words, fds)
            if operation == b"end":
                return self._kill(*words)
            return operation == b"bye"
        finally:
            for fd in fds:
                os.close(fd)

    def _start(self, words: "list[bytes]", fds: "list[int]") -> "bool | None":
        outer_id, uid, folders, numbers, *command = words
        wanted = [1, 2, *(int(number) for number in numbers.split(b",") if number)]
        try:
            if len(wanted) != len(fds):
                raise OSError(errno.EBADF, "descriptors were lost on their way")
            pid, pidfd = _spawn(command, int(uid) if uid else None, dict(zip(wanted, fds, strict=True)), folders)
        except OSError as error:
            return self._say(b"refused", outer_id, b"%d" % (error.errno or 0))
        self._poll.register(pidfd, select.POLLIN)
        self._outer_sandboxes[pidfd] = (pid, outer_id)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pidfd]))]
        return self._say(b"started", outer_id, b"%d" % pid, rights=rights)

    def _kill(self, outer_id: bytes) -> None:
        for pidfd, (_, one) in self._outer_sandboxes.items():
            if one == outer_id:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)  # not reaped, so it is there

    def _reap(self, pidfd: int) -> None:
        outer = self._outer_sandboxes.pop(pidfd, None)
        pid = outer[0] if outer else self._orphans.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        if outer:
            self._ended.append((outer[1], status))
        self._kill_orphans()
        if not self._orphans:
            for outer_id, how in self._ended:
                self._say(b"ended", outer_id, b"%d" % how)
            self._ended.clear()

    def _kill_orphans(self) -> None:
        """The Linux kernel hands orphans over before their parent can be reaped, so none is missed."""
        known = {*(pid for pid, _ in self._outer_sandboxes.values()), *self._orphans.values()}
        for pid in children():
            if pid not in known:
                pidfd = os.pidfd_open(pid)  # ours and not reaped, so the number is still its own
                with suppress(PermissionError):
                    os.kill(pid, signal.SIGKILL)
                self._orphans[pidfd] = pid
                self._poll.register(pidfd, select.POLLIN)

    def _say(self, *words: bytes, rights: "list[tuple[int, int, array.array[int]]] | None" = None) -> "bool | None":
        """False when there is nobody left to say it to."""
        try:
            self._control.sendmsg([b"\0".join(words)], rights or [])
        except OSError:
            return False
        return None


def _spawn(
    command: "list[bytes]", uid: "int | None", descriptors: "dict[int, int]", folders: bytes
) -> "tuple[int, int]":
    """Fork and execute: pid and pidfd. `descriptors` maps what the command calls them to what they are here.

    Raises OSError; the process is gone then.
    """
    if (os.geteuid() if uid is None else uid) == 0:
        raise OSError(errno.EPERM, "an outer sandbox must not run as kernel uid 0")
    reaper = os.getpid()
    failed_read, failed_write = os.pipe2(os.O_CLOEXEC)
    with open(failed_read, "rb") as reader:
        try:
            pid = os.fork()
            if pid == 0:
                _become(command, uid, descriptors, folders, reaper, failed_write)
        finally:
            os.close(failed_write)
        failed = reader.read()
    try:
        if failed:
            raise OSError(int(failed), os.strerror(int(failed)))
        return pid, os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _become(
    command: "list[bytes]",
    uid: "int | None",
    descriptors: "dict[int, int]",
    folders: bytes,
    reaper: int,
    failed: int,
) -> None:
    """In the child: execute, or write to `failed` why not. INVARIANT: never returns; there is one reaper."""
    try:
        failed = fcntl.fcntl(failed, fcntl.F_DUPFD_CLOEXEC, max(descriptors) + 1)
        _place(descriptors, failed)
        if folders and uid is not None:
            _mount(folders, uid)
        _change_identity(uid)
        _die_with(reaper)
        os.execve(command[0], command, {})
    except OSError as error:
        os.write(failed, b"%d" % (error.errno or errno.EIO))
    finally:
        os._exit(127)


def _mount(folders: bytes, uid: int) -> None:
    import json  # needed on this one road only

    from moonpool.sandboxes.folder_mounts import mount_folders

    try:
        mount_folders(json.loads(folders), uid)
    except OSError as error:
        os.write(2, f"a host folder cannot be mounted for the sandbox: {error}\n".encode())
        os._exit(127)


def _place(descriptors: "dict[int, int]", failed: int) -> None:
    """Give each descriptor the number that the command was told; close all others but `failed`."""
    wanted = {0: os.open("/dev/null", os.O_RDONLY), **descriptors}
    moved = {number: fcntl.fcntl(fd, fcntl.F_DUPFD, failed + 1) for number, fd in wanted.items()}
    for number, fd in moved.items():
        os.dup2(fd, number)
    start = 0
    for kept in (*sorted(wanted), failed, _FD_MAX):
        if start < kept:  # os.closerange(0, 0) closes everything
            os.closerange(start, kept)
        start = kept + 1


def _change_identity(uid: "int | None") -> None:
    os.setsid()
    os.chdir("/")
    for number in _RESTORED:
        signal.signal(number, signal.SIG_DFL)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


def _die_with(parent: int) -> None:
    """INVARIANT: after the change of identity, which clears the request."""
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)  # it died before the line above


def children() -> "list[int]":
    """Every child of this process, orphans that were handed to it included."""
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:  # CONFIG_PROC_CHILDREN is not set
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent_of(pid) == me]


def end_all_children() -> None:
    """Kill and reap until no child is left; what loses its parent on the way becomes a child."""
    while True:
        for pid in children():
            with suppress(PermissionError):  # then it has to end by itself, and is waited for
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def remove_group(path: str) -> None:
    """Remove a control group and those in it. The last process leaves a group a moment after it was reaped."""
    for _ in range(_REMOVAL_TRIES):
        try:
            for entry in os.scandir(path):
                if entry.is_dir(follow_symlinks=False):
                    os.rmdir(entry.path)
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(_REMOVAL_PAUSE_S)


def _has_ended(pidfd: int) -> bool:
    """Whether a process that has closed its sockets did so because it is ending."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(_DYING_S * 1000))


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")
