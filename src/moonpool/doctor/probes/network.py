"""Attacks on the network and on other ways to communicate outside."""

from __future__ import annotations

from typing import Final

from moonpool.doctor.probes.record import AnyProbe, Probe

NETWORK: Final[tuple[AnyProbe, ...]] = (
    Probe(
        probe_id="net-families",
        claim="C-NET-1",
        title="open a socket of any family but UNIX",
        program="""
families = {"INET": 2, "AX25": 3, "IPX": 4, "APPLETALK": 5, "X25": 9, "INET6": 10, "KEY": 15, "NETLINK": 16,
            "PACKET": 17, "RDS": 21, "LLC": 26, "IB": 27, "CAN": 29, "TIPC": 30, "BLUETOOTH": 31, "ALG": 38,
            "NFC": 39, "KCM": 41,
            "QIPCRTR": 42, "SMC": 43, "XDP": 44, "MCTP": 45}
for name, family in families.items():
    for kind in (1, 2, 3, 5):
        attempt(f"{name} {kind}", lambda: socket.socket(family, kind).close(), "EAFNOSUPPORT", "EPERM")
    attempt(f"pair {name}", lambda: socket.socketpair(family, 1), "EAFNOSUPPORT", "EPERM", "EOPNOTSUPP")
""",
    ),
    Probe(
        probe_id="net-vsock",
        claim="C-NET-1",
        title="talk to the hypervisor (vsock is separated by no namespace)",
        program="""
for kind in (1, 2, 5):
    attempt(f"socket {kind}", lambda: socket.socket(40, kind).close(), "EAFNOSUPPORT", "EPERM")
attempt("device", lambda: os.open("/dev/vsock", os.O_RDONLY), "ENOENT")
""",
    ),
    Probe(
        probe_id="net-connect",
        claim="C-NET-1",
        title="reach the internet, the metadata service or a loopback port",
        program="""
for host, port in (("1.1.1.1", 443), ("8.8.8.8", 53), ("169.254.169.254", 80), ("127.0.0.1", 22), ("127.0.0.1", 80),
                   ("10.0.0.1", 80), ("192.168.1.1", 80)):
    attempt(f"{host}:{port}", lambda: socket.create_connection((host, port), timeout=0.3).close(),
            "EAFNOSUPPORT", "ENETUNREACH", "EPERM")
attempt("::1", lambda: socket.create_connection(("::1", 80), timeout=0.3), "EAFNOSUPPORT", "ENETUNREACH", "EPERM")
""",
    ),
    Probe(
        probe_id="net-names",
        claim="C-NET-1",
        title="resolve a name",
        program="""
for name in ("example.com", "metadata.google.internal", "host.docker.internal"):
    try:
        note(f"{name} is {socket.getaddrinfo(name, 80)}")
    except socket.gaierror:
        seen("gaierror")
""",
    ),
    Probe(
        probe_id="net-interfaces",
        claim="C-NET-1",
        title="see network interfaces or sockets of the host",
        program="""
names = [line.split(":")[0].strip() for line in open("/proc/self/net/dev").read().splitlines()[2:]]
seen("interfaces")
if set(names) - {"lo"}:
    note(f"interfaces {names}")
if len(routes := open("/proc/self/net/route").read().splitlines()) > 1:
    note(f"{len(routes) - 1} routes")
if others := [line.split()[7] for line in open("/proc/self/net/unix").read().splitlines()[1:] if len(line.split()) > 7]:
    note(f"named sockets {others[:5]}")
""",
        fresh=True,
    ),
    Probe(
        probe_id="net-sysv",
        claim="C-NET-2",
        title="use System V or POSIX queues, semaphores and shared memory",
        program="""
attempt("shmget", lambda: syscall("shmget", 0x1234, 4096, 0o1600), "EPERM")
attempt("semget", lambda: syscall("semget", 0x1234, 1, 0o1600), "EPERM")
attempt("msgget", lambda: syscall("msgget", 0x1234, 0o1600), "EPERM")
attempt("mq_open", lambda: syscall("mq_open", ctypes.c_char_p(b"probe"), 0o102, 0o600, None), "EPERM")
""",
    ),
    Probe(
        probe_id="net-socket-files",
        claim="C-NET-2",
        title="find another process's socket or pipe in the file system",
        program="""
for folder, folders, files in os.walk("/"):
    if folder == "/proc":
        folders[:] = []
        continue
    if folder.startswith(("/usr/share", "/usr/lib")):
        continue
    for name in files:
        mode = os.lstat(f"{folder}/{name}").st_mode
        if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
            note(f"{folder}/{name}")
seen("walked")
""",
        fresh=True,
        quick=False,
    ),
)
