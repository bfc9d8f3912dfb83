"""Attacks on the Linux kernel's own surface: system calls that a sandbox does not need, other ABIs,
terminals, clocks.
"""

from __future__ import annotations

from typing import Final

from moonpool.doctor.probes.record import AnyProbe, Probe

SURFACE: Final[tuple[AnyProbe, ...]] = (
    Probe(
        probe_id="sys-bpf",
        claim="C-SYS-1",
        title="load a BPF program or make a map",
        program='attempt("map", lambda: syscall("bpf", 0, struct.pack("=4I", 2, 4, 4, 1) + bytes(112), 128), "EPERM")\n'
        'attempt("program", lambda: syscall("bpf", 5, bytes(128), 128), "EPERM")',
    ),
    Probe(
        probe_id="sys-perf",
        claim="C-SYS-1",
        title="open a performance event",
        program='event = struct.pack("=IIQ", 1, 112, 0) + bytes(96)\n'
        'attempt("perf", lambda: syscall("perf_event_open", event, 0, -1, -1, 0), "EPERM")',
    ),
    Probe(
        probe_id="sys-userfaultfd",
        claim="C-SYS-1",
        title="open a userfaultfd",
        program='attempt("kernel mode", lambda: syscall("userfaultfd", 0), "EPERM")\n'
        'attempt("user mode", lambda: syscall("userfaultfd", 1), "EPERM")',
    ),
    Probe(
        probe_id="sys-io-uring",
        claim="C-SYS-1",
        title="set up an io_uring or native asynchronous I/O",
        program="""
attempt("io_uring_setup", lambda: syscall("io_uring_setup", 4, ctypes.create_string_buffer(120)), "ENOSYS")
attempt("io_uring_enter", lambda: syscall("io_uring_enter", 0, 1, 0, 0, 0, 0), "ENOSYS")
attempt("io_uring_register", lambda: syscall("io_uring_register", 0, 0, 0, 0), "ENOSYS")
context = ctypes.c_ulong()
attempt("io_setup", lambda: syscall("io_setup", 64, ctypes.byref(context)), "ENOSYS")
""",
    ),
    Probe(
        probe_id="sys-keys",
        claim="C-SYS-1",
        title="use the kernel's keyrings",
        program="""
text = ctypes.c_char_p
attempt("keyctl", lambda: syscall("keyctl", 0, -3, 0), "EPERM")
attempt("add_key", lambda: syscall("add_key", text(b"user"), text(b"probe"), text(b"x"), 1, -2), "EPERM")
attempt("request_key", lambda: syscall("request_key", text(b"user"), text(b"probe"), None, 0), "EPERM")
""",
    ),
    Probe(
        probe_id="sys-modules",
        claim="C-SYS-1",
        title="load kernel code, reboot, swap, read the kernel log, reach for hardware",
        program="""
text = ctypes.c_char_p
for name, arguments in (("init_module", (b"", 0, text(b""))), ("finit_module", (0, text(b""), 0)),
                        ("delete_module", (text(b"none"), 0)), ("kexec_load", (0, 0, None, 0)),
                        ("reboot", (0, 0, 0, 0)), ("swapon", (text(b"/tmp/x"), 0)), ("acct", (text(b"/tmp/x"),)),
                        ("syslog", (2, None, 0)),
                        ("quotactl", (0, None, 0, None)), ("fanotify_init", (0, 0))):
    attempt(name, lambda: syscall(name, *arguments), "EPERM")
if _COLUMN == 0:
    for name, arguments in (("iopl", (3,)), ("ioperm", (0, 1, 1)), ("modify_ldt", (0, None, 0))):
        attempt(name, lambda: syscall(name, *arguments), "EPERM")
""",
    ),
    Probe(
        probe_id="sys-clocks",
        claim="C-SYS-1",
        title="set a clock",
        program="""
moment = struct.pack("=qq", 1, 0)
attempt("clock_settime", lambda: syscall("clock_settime", 0, moment), "EPERM")
attempt("settimeofday", lambda: syscall("settimeofday", moment, None), "EPERM")
timex = ctypes.create_string_buffer(struct.pack("=I", 1) + bytes(252))
attempt("adjtimex", lambda: syscall("adjtimex", timex), "EPERM")
""",
    ),
    Probe(
        probe_id="sys-memory-policy",
        claim="C-SYS-1",
        title="move pages, change memory policy, splice pages, switch off address randomisation",
        program="""
for name, arguments in (("move_pages", (0, 0, None, None, None, 0)), ("set_mempolicy", (0, None, 0)),
                        ("migrate_pages", (0, 0, None, None)), ("mbind", (0, 0, 0, None, 0, 0)),
                        ("vmsplice", (1, None, 0, 0)),
                        ("personality", (0x0040000,))):
    attempt(name, lambda: syscall(name, *arguments), "EPERM")
attempt("memfd_secret", lambda: syscall("memfd_secret", 0), "ENOSYS")
""",
    ),
    Probe(
        probe_id="sys-unknown-calls",
        claim="C-SYS-2",
        title="make calls of another ABI, or calls that are not reviewed yet",
        program="""
for number in (470, 471, 500, 512, 547, 1000):
    attempt(str(number), lambda: syscall(number, 0, 0, 0), "ENOSYS")
if _COLUMN == 0:
    attempt("x32 getpid", lambda: syscall(0x40000000 + 39), "ENOSYS")
    attempt("x32 ptrace", lambda: syscall(0x40000000 + 521, 0, 0, 0, 0), "ENOSYS")
""",
    ),
    Probe(
        probe_id="sys-own-filter",
        claim="C-SYS-2",
        title="load a filter of one's own that allows everything",
        program="""
allow = struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000)
rules = ctypes.create_string_buffer(allow)
program = struct.pack("@HP", 1, ctypes.addressof(rules))
def load():
    syscall("seccomp", 1, 0, program)  # allowed: filters only add up
    return 0
if (code := in_child(load)) != 0:
    note(f"a program cannot filter itself: {code}")
def load_and_try():
    load()
    try:
        syscall("keyctl", 0, -3, 0)
    except OSError:
        return 0
    return 77
seen("filter")
if in_child(load_and_try) != 0:
    note("the new filter took the place of the old one")
""",
    ),
    Probe(
        probe_id="sys-int80",
        claim="C-SYS-2",
        title="enter the Linux kernel as a 32-bit program",
        program="""
def enter():
    import mmap
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return 77 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() else 78
if _COLUMN == 0:
    status = in_child(enter)
    seen(f"signal {-status}")
    if status not in (-signal.SIGSYS, -signal.SIGSEGV):
        note(f"it ended with {status}")
else:
    seen("not on this architecture")
""",
    ),
    Probe(
        probe_id="sys-shared-budgets",
        claim="C-LIM-5",
        title="reach neighbours through the kernel: leases, watches, socket filters, out-of-band data, ldiscs",
        program="""
held, folder = os.open("/tmp/lease", os.O_CREAT | os.O_RDWR), os.open("/tmp", os.O_RDONLY)
for bit in (0, 1 << 32):
    attempt("lease", lambda: syscall("fcntl", held, 1024 | bit, fcntl.F_WRLCK), "EPERM")
    attempt("watch of a folder", lambda: syscall("fcntl", folder, 1026 | bit, 2), "EPERM")
attempt("delegation", lambda: syscall("fcntl", held, 1040, 0), "EINVAL")
one, other = socket.socketpair()
rules = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0xFFFF))
for name, option in (("SO_ATTACH_FILTER", 26), ("SO_ATTACH_BPF", 50), ("SO_ATTACH_REUSEPORT_CBPF", 51)):
    value = struct.pack("@HP", 1, ctypes.addressof(rules))
    attempt(name, lambda: one.setsockopt(socket.SOL_SOCKET, option, value), "EPERM")
attempt("send out of band", lambda: one.send(b"x", socket.MSG_OOB), "ENOTSUP")
attempt("sendmsg out of band", lambda: one.sendmsg([b"x"], [], socket.MSG_OOB), "ENOTSUP")
attempt("receive out of band", lambda: other.recv(1, socket.MSG_OOB | socket.MSG_DONTWAIT), "ENOTSUP")
attempt("receive message out of band", lambda: other.recvmsg(1, 0, socket.MSG_OOB | socket.MSG_DONTWAIT), "ENOTSUP")
slave = os.openpty()[1]
attempt("line discipline", lambda: syscall("ioctl", slave, 0x5423 | 1 << 32, ctypes.c_char_p(bytes(4))), "EPERM")
def take_back():
    syscall("prctl", 1, 0, 0, 0, 0)
    return 77
if in_child(take_back) != errno.EPERM:
    note("the parent-death signal can be taken back")
attempt("core scheduling", lambda: syscall("prctl", 62, 1, 0, 0, 0), "EPERM")
attempt("pipe of notifications", lambda: os.pipe2(0x80), "ENOPKG")
""",
    ),
    Probe(
        probe_id="sys-terminal-injection",
        claim="C-SYS-3",
        title="type into a controlling terminal (TIOCSTI, also with a bit above the low 32)",
        program="""
def inject():
    os.setsid()
    master, slave = os.openpty()
    fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
    for name, request in (("TIOCSTI", 0x5412), ("TIOCSTI and bit 32", 0x5412 | 1 << 32), ("TIOCLINUX", 0x541C)):
        attempt(name, lambda: syscall("ioctl", slave, request, ctypes.c_char_p(b"x")), "EPERM", "EIO")
    return len(_through)
if in_child(inject):
    note("a byte was typed")
seen("pty")
""",
    ),
)
