"""Attacks on processes: those of others, and limits on the sandbox's own."""

from __future__ import annotations

from typing import Final

from moonpool.doctor.probes.record import AnyProbe, Probe

PROCESSES: Final[tuple[AnyProbe, ...]] = (
    Probe(
        probe_id="proc-foreign-pids",
        claim="C-PROC-1",
        title="see processes that are not the sandbox's own",
        program="""
pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
seen(f"{len(pids)} pids")
if os.getpid() != 1 or any(pid != 1 and os.stat(f"/proc/{pid}").st_uid != 1000 for pid in pids) or len(pids) > 3:
    note(f"I am {os.getpid()}; I see {pids[:20]}")
if os.getppid() != 0:
    note(f"a parent {os.getppid()} is visible")
""",
        fresh=True,
    ),
    Probe(
        probe_id="proc-own-group",
        claim="C-PROC-1",
        title="share a process group with processes outside",
        program="""
seen("group")
if os.getpgrp() != 1:
    note(f"group {os.getpgrp()}: kill(0, ...) leaves the sandbox")
""",
    ),
    Probe(
        probe_id="proc-own-settings",
        claim="C-PROC-2",
        title="take back being the first to go when memory runs out; slow neighbours down",
        program="""
for name in ("oom_score_adj", "autogroup", "timerslack_ns", "coredump_filter", "clear_refs"):
    attempt(name, lambda: open(f"/proc/self/{name}", "w"), "EROFS", "EACCES", "ENOENT")
""",
    ),
    Probe(
        probe_id="proc-signal-others",
        claim="C-PROC-1",
        title="signal or watch every other process id",
        program="""
for pid in range(2, 30000):
    attempt(str(pid), lambda: os.kill(pid, 0), "ESRCH")
for pid in (100, 1000, 10000):
    attempt(f"pidfd {pid}", lambda: os.pidfd_open(pid), "ESRCH")
    attempt(f"prlimit {pid}", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE), "ESRCH")
    attempt(f"affinity {pid}", lambda: os.sched_setaffinity(pid, {0}), "ESRCH")
attempt("every process", lambda: os.kill(-1, signal.SIGCONT), "ESRCH", "EPERM")
""",
        fresh=True,
    ),
    Probe(
        probe_id="proc-trace",
        claim="C-PROC-1",
        title="trace or read another process",
        program="""
buffer = ctypes.create_string_buffer(16)
attempt("ptrace traceme", lambda: syscall("ptrace", 0, 0, 0, 0), "EPERM")
attempt("ptrace attach", lambda: syscall("ptrace", 16, 1, 0, 0), "EPERM")
attempt("process_vm_readv", lambda: syscall("process_vm_readv", 1, buffer, 0, buffer, 0, 0), "EPERM")
attempt("kcmp", lambda: syscall("kcmp", 1, 1, 0, 0, 0), "EPERM")
attempt("pidfd_getfd", lambda: syscall("pidfd_getfd", os.pidfd_open(1), 3, 0), "EPERM")
""",
    ),
    Probe(
        probe_id="proc-raise-limits",
        claim="C-PROC-2",
        title="raise a hard limit",
        program="""
for name in ("AS", "NPROC", "NOFILE", "FSIZE", "CPU", "CORE", "MEMLOCK", "MSGQUEUE", "SIGPENDING", "NICE", "RTPRIO"):
    number = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(number)[1]
    if hard == resource.RLIM_INFINITY:
        note(f"{name} has no limit")
        continue
    for value in (hard + 1, resource.RLIM_INFINITY):
        try:
            resource.setrlimit(number, (value, value))
            note(f"{name} was raised to {value}")
        except (ValueError, OSError):
            seen(name)
# Behind a control group RLIMIT_NPROC is a second layer with 16 to spare, and RLIMIT_DATA stands for RLIMIT_AS; of that
# a process may take back the 512 MiB that Node.js 24 reserves at its start.
memory = [resource.getrlimit(limit)[0] for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
more = resource.getrlimit(resource.RLIMIT_DATA)[1]
if not any(0 <= one <= MEMORY_BYTES for one in memory) or more > MEMORY_BYTES + (512 << 20):
    note(f"memory is above {MEMORY_BYTES}")
promised = {"NPROC": PROCESSES + 16, "NOFILE": OPEN_FILES, "FSIZE": FILE_BYTES, "MEMLOCK": 0}
for name, value in promised.items():
    if resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1] > value:
        note(f"{name} is above {value}")
""",
    ),
    Probe(
        probe_id="proc-priority",
        claim="C-PROC-2",
        title="gain priority over the host",
        program="""
attempt("nice", lambda: os.nice(-5), "EPERM", "EACCES")
attempt("setpriority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5), "EPERM", "EACCES")
attempt("fifo", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), "EPERM")
attempt("rr", lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)), "EPERM")
attempt("oom", lambda: write("/proc/self/oom_score_adj", "-1000"), "EACCES", "EROFS")
attempt("oom of 1", lambda: write("/proc/1/oom_score_adj", "-500"), "EACCES", "EROFS")
""",
    ),
    Probe(
        probe_id="proc-fork-bomb",
        claim="C-LIM-1",
        title="fork without end, then work on",
        program="""
children = []
try:
    while len(children) < PROCESSES + 32:
        pid = os.fork()
        if pid == 0:
            time.sleep(20)
            os._exit(0)
        children.append(pid)
    note(f"{len(children)} processes ran at once, {PROCESSES} were promised")
except OSError as error:
    seen(errno.errorcode[error.errno])
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
if in_child(lambda: 7) != 7:
    note("the sandbox cannot fork any more")
""",
        fresh=True,
    ),
    Probe(
        probe_id="proc-thread-bomb",
        claim="C-LIM-1",
        title="start threads without end",
        program="""
import threading
stop, threads = threading.Event(), []
try:
    while len(threads) < PROCESSES + 32:
        thread = threading.Thread(target=stop.wait, daemon=True)
        thread.start()
        threads.append(thread)
    note(f"{len(threads)} threads ran at once")
except RuntimeError as error:
    seen("RuntimeError")
stop.set()
for thread in threads:
    thread.join()
""",
        fresh=True,
    ),
)
