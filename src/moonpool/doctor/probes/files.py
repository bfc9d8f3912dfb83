"""Attacks on the file system: host files, read-only places, devices, mounts, kernel interfaces."""

from __future__ import annotations

from typing import Final

from moonpool.doctor.probes.record import AnyProbe, Probe

FILES: Final[tuple[AnyProbe, ...]] = (
    Probe(
        probe_id="fs-host-files",
        claim="C-FS-1",
        title="read files of the host",
        program="""
for path in ("/etc/shadow", "/etc/machine-id", "/etc/hostname", "/etc/resolv.conf", "/etc/ssh", "/root/.ssh",
             "/home/root", "/var/log", "/var/spool", "/var/run/docker.sock", "/sys", "/run", "/run/docker.sock", "/srv",
             "/mnt", "/media", "/boot", "/.dockerenv", "/lost+found", "/proc/1/root/etc/shadow",
             "/proc/self/cwd/../../../../etc/shadow"):
    attempt(path, lambda: os.stat(path), "ENOENT")
""",
    ),
    Probe(
        probe_id="fs-root-listing",
        claim="C-FS-1",
        title="find folders that are neither the sandbox's own nor on the way to something that is bound",
        program="""
known = {"/": "bin lib lib64 sbin usr etc proc dev tmp home workspace data wrappers slots quota moonpool",
         "/home": "user baponi", "/etc": "passwd group hosts nsswitch.conf ld.so.cache alternatives fonts ssl",
         "/etc/ssl": "certs"}
mounts = {line.split()[4] for line in open("/proc/self/mountinfo")} - {"/"}
def look(folder):
    seen("folders")
    for name in set(os.listdir(folder)) - set(known.get(folder, "").split()):
        path = f"{folder.rstrip('/')}/{name}"
        if path in mounts:
            continue
        if any(mount.startswith(path + "/") for mount in mounts):
            look(path)
        else:
            note(path)
for folder in known:
    look(folder)
if os.readlink("/home/baponi") != "/workspace":
    note("/home/baponi")
""",
        fresh=True,
    ),
    Probe(
        probe_id="fs-accounts",
        claim="C-FS-1",
        title="learn the accounts of the host",
        program="""
names = [line.split(":")[0] for path in ("/etc/passwd", "/etc/group") for line in open(path)]
if set(names) - {"root", "sandbox"}:
    note(f"accounts {names}")
seen("root and sandbox")
""",
    ),
    Probe(
        probe_id="fs-write",
        claim="C-FS-2",
        title="create files outside the sandbox's own folders",
        program="""
own = {"/tmp", "/workspace", "/home/user", "/data", "/dev/shm", "/dev/pts"}
for folder in ("/", "/usr", "/usr/bin", "/usr/local", "/usr/lib", "/etc", "/etc/ssl/certs", "/dev", "/bin", "/lib",
               "/home", "/moonpool", "/moonpool/moonpool_guest", "/wrappers", "/slots", "/quota", "/proc",
               "/proc/self"):
    if os.path.isdir(folder):
        attempt(folder, lambda: os.close(os.open(f"{folder}/probe", os.O_CREAT | os.O_WRONLY)),
                "EROFS", "EACCES", "EPERM", "ENOENT")
for folder, folders, _ in os.walk("/"):
    folders[:] = [] if folder in own or folder == "/proc" else folders
    if folder not in own and folder != "/proc" and os.access(folder, os.W_OK):
        note(f"{folder} is writable")
""",
        quick=False,  # it walks all of /usr
    ),
    Probe(
        probe_id="fs-change",
        claim="C-FS-2",
        title="change, replace or remove what the sandbox runs",
        program="""
for path in (PYTHON, "/usr/bin/env", "/etc/passwd", "/moonpool/moonpool_guest/confine.py", "/usr/lib"):
    for name, action in (("open", lambda: os.open(path, os.O_WRONLY)), ("chmod", lambda: os.chmod(path, 0o777)),
                         ("unlink", lambda: os.unlink(path)), ("rename", lambda: os.rename(path, path + "x")),
                         ("utime", lambda: os.utime(path)),
                         ("link", lambda: os.link(path, "/tmp/linked"))):
        attempt(f"{name} {path}", action)
""",
    ),
    Probe(
        probe_id="fs-proc-sys",
        claim="C-FS-2",
        title="open a file of /proc for writing that belongs to the whole machine",
        program="""
for folder, folders, files in os.walk("/proc"):
    folders[:] = [name for name in folders if not (folder == "/proc" and name.isdigit())]
    for name in files:
        path = f"{folder}/{name}"
        attempt(path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/pressure/cpu"):
    attempt(path, lambda: os.close(os.open(path, os.O_WRONLY)))
""",
    ),
    Probe(
        probe_id="fs-devices",
        claim="C-FS-4",
        title="open devices of the host, or set the times of those that are there",
        program="""
allowed = set("null zero full random urandom tty ptmx pts shm fd stdin stdout stderr core".split())
if extra := set(os.listdir("/dev")) - allowed:
    note(f"/dev holds {sorted(extra)}")
for name in ("mem", "kmem", "port", "kvm", "vda", "sda", "nvme0n1", "kmsg", "fuse", "net/tun", "loop0", "vsock", "dri",
             "vhost-vsock", "userfaultfd", "snd", "input", "hpet", "autofs"):
    attempt(name, lambda: os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK)))
attempt("a terminal", lambda: os.close(os.open("/dev/tty", os.O_RDWR)), "ENXIO")
for name in ("null", "zero", "full", "random", "urandom", "tty"):
    attempt(f"times of {name}", lambda: os.utime(f"/dev/{name}"), "EROFS")
with open("/dev/null", "w") as null:
    null.write("x")
""",
    ),
    Probe(
        probe_id="fs-kernel-interfaces",
        claim="C-FS-4",
        title="read what /proc tells about the machine",
        program="""
for name in ("kcore", "kmsg", "kallsyms", "keys", "key-users", "timer_list", "slabinfo", "vmallocinfo", "modules",
             "cmdline", "iomem", "ioports", "interrupts", "partitions", "diskstats", "mdstat", "pagetypeinfo",
             "config.gz", "sysvipc", "sched_debug", "latency_stats", "bus", "fs", "irq", "driver",
             "scsi", "acpi", "asound", "sys"):
    attempt(name, lambda: read(f"/proc/{name}"), "ENOENT", "EACCES", "EPERM")
""",
    ),
    Probe(
        probe_id="fs-mount",
        claim="C-FS-3",
        title="mount, unmount or change the root",
        program="""
text = ctypes.c_char_p
attempt("tmpfs", lambda: syscall("mount", text(b"tmpfs"), text(b"/tmp"), text(b"tmpfs"), 0, None), "EPERM")
attempt("remount", lambda: syscall("mount", None, text(b"/usr"), None, 32 | 4096, None), "EPERM")
attempt("umount", lambda: syscall("umount2", text(b"/slots"), 2), "EPERM")
attempt("umount proc", lambda: syscall("umount2", text(b"/proc"), 2), "EPERM")
attempt("pivot_root", lambda: syscall("pivot_root", text(b"/tmp"), text(b"/tmp")), "EPERM")
attempt("chroot", lambda: os.chroot("/tmp"), "EPERM")
attempt("open_tree", lambda: syscall("open_tree", -100, text(b"/"), 1), "EPERM")
attempt("move_mount", lambda: syscall("move_mount", -100, text(b"/tmp"), -100, text(b"/usr"), 0), "EPERM")
attempt("fsopen", lambda: syscall("fsopen", text(b"tmpfs"), 0), "EPERM")
attempt("fsmount", lambda: syscall("fsmount", 0, 0, 0), "EPERM")
attempt("mount_setattr", lambda: syscall("mount_setattr", -100, text(b"/usr"), 0, bytes(32), 32), "EPERM")
""",
    ),
    Probe(
        probe_id="fs-mknod",
        claim="C-FS-3",
        title="make device nodes",
        program="""
for name, mode, device in (("null", stat.S_IFCHR, os.makedev(1, 3)), ("mem", stat.S_IFCHR, os.makedev(1, 1)),
                           ("disk", stat.S_IFBLK, os.makedev(254, 0))):
    attempt(name, lambda: os.mknod(f"/tmp/{name}", mode | 0o600, device), "EPERM")
os.mkfifo("/tmp/fifo")  # harmless, and used by programs
os.unlink("/tmp/fifo")
""",
    ),
    Probe(
        probe_id="fs-handles",
        claim="C-FS-3",
        title="open files by handle",
        program="""
handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128))
mount_id = ctypes.c_int()
attempt("name_to_handle_at", lambda: syscall("name_to_handle_at", -100, ctypes.c_char_p(b"/"), handle,
        ctypes.byref(mount_id), 0), "EPERM")
attempt("open_by_handle_at", lambda: syscall("open_by_handle_at", os.open("/usr", os.O_RDONLY), handle, 0), "EPERM")
""",
    ),
    Probe(
        probe_id="fs-mount-options",
        claim="C-FS-2",
        title="find a mount that is writable, or honours setuid bits, or devices, and should not",
        program="""
own = ("/tmp", "/workspace", "/home/user", "/data", "/dev/shm", "/dev/pts", "/proc")
for line in open("/proc/self/mountinfo"):
    place, options = line.split()[4:6]
    options = options.split(",")
    seen("mount")
    if "nosuid" not in options:
        note(f"{place} honours setuid bits")
    if "nodev" not in options and not place.startswith("/dev/"):
        note(f"{place} honours devices")
    if "ro" not in options and place not in own:
        note(f"{place} is mounted for writing")
""",
    ),
)
