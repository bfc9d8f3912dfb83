"""Attacks on memory, disk and descriptors. All are bounded, so that a missing limit does little harm to the host."""

from __future__ import annotations

from typing import Final

from moonpool.doctor.probes.record import AnyProbe, Probe

LIMITS: Final[tuple[AnyProbe, ...]] = (
    Probe(
        probe_id="lim-address-space",
        claim="C-LIM-2",
        title="map more memory than promised (nothing is touched)",
        program="""
import mmap
attempt("one mapping", lambda: mmap.mmap(-1, MEMORY_BYTES + (1 << 20), flags=mmap.MAP_PRIVATE), "ENOMEM")
attempt("one shared mapping", lambda: mmap.mmap(-1, MEMORY_BYTES + (65 << 30)), "ENOMEM")
attempt("mapping without reserve", lambda: mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | 0x4000), "ENOMEM")
held = []
try:
    for _ in range(80):
        held.append(mmap.mmap(-1, MEMORY_BYTES // 64, flags=mmap.MAP_PRIVATE))
    note("many small mappings exceed the limit")
except OSError:
    seen("ENOMEM")
held.clear()
try:
    bytes(MEMORY_BYTES)  # zeroed pages that nobody touches
    note("an object as large as the limit")
except MemoryError:
    seen("MemoryError")
""",
    ),
    Probe(
        probe_id="lim-unaccounted-memory",
        claim="C-LIM-2",
        title="hold memory that no limit counts (memfd, locked, secret)",
        program="""
attempt("memfd", lambda: os.close(syscall("memfd_create", ctypes.c_char_p(b"probe"), 0)), "EPERM")
attempt("memfd_secret", lambda: os.close(syscall("memfd_secret", 0)), "ENOSYS")
page = ctypes.create_string_buffer(16384)
attempt("mlock", lambda: syscall("mlock", page, 16384), "EPERM", "ENOMEM")
""",
    ),
    Probe(
        probe_id="lim-socket-buffers",
        claim="C-LIM-2",
        title="hold kernel memory in large socket buffers",
        program="""
one, other = socket.socketpair()
attempt("SO_SNDBUF", lambda: one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24), "EPERM")
attempt("SO_SNDBUFFORCE", lambda: one.setsockopt(socket.SOL_SOCKET, 32, 1 << 24), "EPERM")
one.setblocking(False)
held = 0
try:
    while held < 16 << 20:
        held += one.send(bytes(65536))
    note(f"{held} bytes in one socket")
except BlockingIOError:
    seen("EAGAIN")
""",
    ),
    Probe(
        probe_id="lim-kernel-memory",
        claim="C-LIM-2",
        title="hold kernel memory in access lists, rules, filters with listeners or slots of futexes; merge pages",
        program="""
file = os.open("/tmp/listed", os.O_CREAT | os.O_RDWR)
entries = ((1, 7, -1), *((2, 7, os.getuid()),) * 8000, (4, 7, -1), (16, 7, -1), (32, 0, -1))
rules = struct.pack("=I", 2) + b"".join(struct.pack("=HHi", *entry) for entry in entries)
for path in ("/tmp", "/tmp/listed", file):
    attempt("access list", lambda: os.setxattr(path, "system.posix_acl_access", rules), "ENOTSUP")
attempt("access list, no link", lambda: os.setxattr("/tmp", "user.x", b"", follow_symlinks=False), "ENOTSUP")
attempt("setxattrat", lambda: syscall("setxattrat", -100, None, 0, None, None, 0), "ENOTSUP", "ENOSYS")
attempt("rules", lambda: syscall("landlock_create_ruleset", struct.pack("=Q", 1), 8, 0), "ENOSYS")
allow = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))
filter_program = struct.pack("@HP", 1, ctypes.addressof(allow))
def listen():
    syscall("seccomp", 1, 8, filter_program)
    return 77
if in_child(listen) != errno.EINVAL:
    note("a filter with a listener")
attempt("slots of futexes", lambda: syscall("prctl", 78, 1, 16, 0, 0), "EINVAL")
attempt("merge all pages", lambda: syscall("prctl", 67, 1, 0, 0, 0), "EPERM")
attempt("merge pages", lambda: syscall("madvise", 0, 4096, 12), "EPERM")
""",
    ),
    Probe(
        probe_id="lim-disk",
        claim="C-LIM-3",
        title="write more than the disk quota, in all folders together",
        program="""
written, block = 0, bytes(1 << 20)
for folder in ("/tmp", "/workspace", "/home/user", "/data", "/dev/shm"):
    try:
        with open(f"{folder}/fill", "wb", buffering=0) as file:
            while written <= DISK_BYTES + (8 << 20) and (count := file.write(block)):
                written += count
    except OSError as error:
        seen(errno.errorcode[error.errno])
if written > DISK_BYTES:
    note(f"{written} bytes fit, {DISK_BYTES} were promised")
for folder in ("/tmp", "/workspace", "/home/user", "/data", "/dev/shm"):
    os.unlink(f"{folder}/fill")
open("/workspace/again", "wb").write(block)
""",
        fresh=True,
    ),
    Probe(
        probe_id="lim-inodes",
        claim="C-LIM-3",
        title="make more files than promised",
        program="""
made = 0
for folder in ("/tmp", "/workspace", "/home/user", "/data", "/dev/shm"):
    try:
        while made <= DISK_INODES + 256:
            os.symlink("x", f"{folder}/f{made}")
            made += 1
    except OSError as error:
        seen(errno.errorcode[error.errno])
if made > DISK_INODES:
    note(f"{made} files exist, {DISK_INODES} were promised")
""",
        fresh=True,
    ),
    Probe(
        probe_id="lim-file-size",
        claim="C-LIM-3",
        title="make one file larger than promised",
        program="""
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("/tmp/large", "wb") as file:
    attempt("truncate", lambda: file.truncate(FILE_BYTES + 1), "EFBIG", "ENOSPC")
    attempt("write", lambda: os.pwrite(file.fileno(), b"x", FILE_BYTES + 1), "EFBIG", "ENOSPC")
""",
    ),
    Probe(
        probe_id="lim-descriptors",
        claim="C-LIM-4",
        title="open files, pipes and terminals without end",
        program="""
def exhaust(name, make, most):
    made = []
    try:
        while len(made) <= most:
            made.append(make())
        note(f"{len(made)} {name}")
    except OSError as error:
        seen(errno.errorcode[error.errno])
    for fd in made:
        for one in fd if isinstance(fd, tuple) else (fd,):
            os.close(one)
exhaust("files", lambda: os.open("/dev/null", os.O_RDONLY), OPEN_FILES)
exhaust("pipes", os.pipe, OPEN_FILES // 2)
exhaust("terminals", lambda: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY), 64)
""",
        fresh=True,
    ),
    Probe(
        probe_id="lim-inotify",
        claim="C-LIM-4",
        title="watch files with inotify, whose instances are counted per uid and which sees the host's programs start",
        program="""
for flags in (0, os.O_NONBLOCK, os.O_CLOEXEC):
    attempt("inotify", lambda: syscall("inotify_init1", flags), "ENOSYS")
""",
    ),
)
