"""Attacks on identity: capabilities, uids, namespaces, setuid programs."""

from __future__ import annotations

from typing import Final

from moonpool.doctor.probes.record import AnyProbe, Probe

IDENTITY: Final[tuple[AnyProbe, ...]] = (
    Probe(
        probe_id="id-capabilities",
        claim="C-ID-1",
        title="hold a capability, or be able to gain one",
        program="""
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    seen(name)
    if int(status[name], 16):
        note(f"{name} is {status[name].strip()}")
if status["NoNewPrivs"].strip() != "1":
    note("no_new_privs is off")
if status["Seccomp"].strip() != "2":
    note("no system-call filter")
if _libc.prctl(47, 2, 0, 0, 0) == 0:
    note("an ambient capability was raised")
header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
attempt("capset", lambda: syscall("capset", header, sets), "EPERM")
""",
    ),
    Probe(
        probe_id="id-become-another",
        claim="C-ID-1",
        title="become another user or group",
        program="""
if os.getresuid() != (1000,) * 3 or os.getresgid() != (1000,) * 3 or set(os.getgroups()) - {1000, 65534}:
    note(f"ids are {os.getresuid()} {os.getresgid()} {os.getgroups()}")
for uid in (0, 1, 1001, 65534):
    attempt(f"setuid {uid}", lambda: os.setuid(uid), "EPERM", "EINVAL")
    attempt(f"setgid {uid}", lambda: os.setgid(uid), "EPERM", "EINVAL")
    attempt(f"setreuid {uid}", lambda: os.setreuid(uid, uid), "EPERM", "EINVAL")
attempt("setgroups", lambda: os.setgroups([0]), "EPERM", "EINVAL")
attempt("chown", lambda: (open("/tmp/owned", "w").close(), os.chown("/tmp/owned", 0, 0)), "EPERM", "EINVAL")
for name in ("uid_map", "gid_map", "setgroups"):
    attempt(name, lambda: write(f"/proc/self/{name}", "0 0 1"), "EPERM", "EACCES", "EROFS")
""",
    ),
    Probe(
        probe_id="id-mapped-range",
        claim="C-ID-1",
        title="have more than one user of the host mapped in",
        program="""
for name in ("uid_map", "gid_map"):
    lines = open(f"/proc/self/{name}").read().split()
    seen(name)
    if len(lines) != 3 or lines[0] != "1000" or lines[2] != "1":
        note(f"{name} is {lines}")
""",
    ),
    Probe(
        probe_id="id-setuid-programs",
        claim="C-ID-2",
        quick=False,
        title="gain rights by a setuid program",
        program="""
import shutil
shutil.copy("/usr/bin/env", "/tmp/mine") if os.path.exists("/usr/bin/env") else None
os.chmod("/tmp/mine", 0o6755)
for command in (["/tmp/mine", "id", "-u"], ["/usr/bin/su", "-c", "id -u", "root"], ["/usr/bin/newgrp"],
                ["/usr/bin/mount"]):
    if os.path.exists(command[0]):
        seen("run")
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=3)
        if done.stdout.strip() == b"0":
            note(f"{command[0]} ran as root")
attempt("file capability", lambda: os.setxattr("/tmp/mine", "security.capability", bytes.fromhex(
    "0000000201000000000000000000000000000000")), "EPERM", "ENOTSUP")
""",
    ),
    Probe(
        probe_id="id-unshare",
        claim="C-ID-2",
        title="make a namespace of one's own",
        program="""
for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("pid", 0x20000000), ("net", 0x40000000),
                   ("ipc", 0x8000000), ("uts", 0x4000000), ("cgroup", 0x2000000), ("time", 0x80)):
    attempt(f"unshare {name}", lambda: syscall("unshare", flag), "EPERM")
    attempt(f"unshare user and {name}", lambda: syscall("unshare", flag | 0x10000000), "EPERM")
    if flag != 0x80:
        def cloned():
            if syscall("clone", flag | 17, 0, 0, 0, 0) == 0:
                os._exit(0)
        attempt(f"clone {name}", cloned, "EPERM")
attempt("clone3", lambda: syscall("clone3", struct.pack("=11Q", 0x10000000, *[0] * 10), 88), "ENOSYS")
""",
    ),
    Probe(
        probe_id="id-userns-second-layer",
        claim="C-ID-2",
        title="make a user namespace if the filter had a hole (the count of namespaces is 0)",
        program="""
try:
    limit = int(open("/proc/sys/user/max_user_namespaces").read())
    note(f"/proc/sys is there; it says {limit}")
except OSError as error:
    seen("no /proc/sys")
attempt("unshare", lambda: syscall("unshare", 0x10000000), "EPERM", "ENOSPC")
""",
    ),
    Probe(
        probe_id="id-setns",
        claim="C-ID-2",
        title="enter a namespace through /proc or a pidfd",
        program="""
for name in ("mnt", "pid", "net", "user", "ipc", "uts", "cgroup"):
    attempt(name, lambda: syscall("setns", os.open(f"/proc/1/ns/{name}", os.O_RDONLY), 0), "EPERM")
attempt("pidfd", lambda: syscall("setns", os.pidfd_open(1), 0x20000), "EPERM")
attempt("parent", lambda: fcntl.ioctl(os.open("/proc/self/ns/user", os.O_RDONLY), 0xB702), "EPERM")  # NS_GET_PARENT
attempt("sethostname", lambda: socket.sethostname("mine"), "EPERM")
""",
    ),
    Probe(
        probe_id="id-core-helper",
        claim="C-ID-3",
        title="let the host's crash helper run, as root, over a crashed process",
        program="""
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
if hard != 1:
    note(f"the core limit is {hard}; only 1 keeps a piped core_pattern from starting")
attempt("prlimit", lambda: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)), "EPERM")
attempt("raw prlimit", lambda: syscall("prlimit64", 0, (1 << 32) | 4, struct.pack("=QQ", 0, 0), None), "EPERM")
os.chdir("/tmp")
if in_child(lambda: os.kill(os.getpid(), signal.SIGSEGV) or time.sleep(1)) != -signal.SIGSEGV:
    note("a crash was not a crash")
if any(name.startswith("core") for name in os.listdir("/tmp")):
    note("a core file was written")
""",
    ),
)
