"""Attacks on leftovers: environment, descriptors, other sandboxes' slots, guest code."""

from __future__ import annotations

from typing import Final

from moonpool.doctor.probes.record import AnyProbe, Probe

RESIDUE: Final[tuple[AnyProbe, ...]] = (
    Probe(
        probe_id="res-environment",
        claim="C-RES-1",
        title="find variables of the host in the environment",
        program="""
known = set("PATH HOME USER TMPDIR LANG LC_CTYPE PWD PYTHONDONTWRITEBYTECODE PYTHONHASHSEED".split()) | set(VARIABLES)
known |= {"PIP_NO_INDEX", "NPM_CONFIG_OFFLINE", "UV_OFFLINE"}
initial = [part.split(b"=")[0].decode() for part in open("/proc/self/environ", "rb").read().split(b"\\0") if part]
seen("environments")
for source, names in (("os.environ", os.environ), ("/proc/self/environ", initial)):
    if extra := sorted(set(names) - known):
        note(f"{source}: {extra}")
""",
    ),
    Probe(
        probe_id="res-descriptors",
        claim="C-RES-1",
        title="find an inherited descriptor beside null, two pipes, the channel and an event counter",
        program="""
found = {}
for fd in range(1024):
    try:
        found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        pass
seen(f"{len(found)} descriptors")
shapes = [("/dev/null",), ("pipe:",), ("pipe:",), ("socket:",), ("anon_inode:[eventfd]",)]
if len(found) > 5 or any(not found[fd].startswith(shape) for fd, shape in zip(sorted(found), shapes)):
    note(found)
""",
        fresh=True,
    ),
    Probe(
        probe_id="res-command-line",
        claim="C-RES-1",
        title="find host paths, keys or addresses in the command line",
        program=r"""
text = open("/proc/1/cmdline").read()
seen("read")
for word in ("token", "secret", "password", "http:", "https:", "--config"):
    if word in text.lower():
        note(f"{word!r} is in the command line")
""",
    ),
    Probe(
        probe_id="res-slots",
        claim="C-RES-2",
        title="see the wrappers of another sandbox",
        program="""
for folder in ("/slots", "/quota"):
    seen(folder)
    if os.path.isdir(folder) and (names := os.listdir(folder)):
        note(f"{folder} shows {names[:5]}")
for target in ("/wrappers/..", "/wrappers/current/../../.."):
    if os.path.isdir(target) and "slots" not in os.listdir("/") and len(os.listdir(target)) > 20:
        note(f"{target} leads out")
names = [name for name in os.listdir("/wrappers") if not name.startswith(("current", "tree-", "."))]
if names:
    note(f"/wrappers shows {names[:5]}")
""",
    ),
    Probe(
        probe_id="res-fresh-folders",
        claim="C-RES-2",
        title="find files of an earlier sandbox in the sandbox's own folders",
        program="""
for folder in ("/tmp", "/dev/shm", "/home/user", "/data", "/workspace"):
    seen(folder)
    roots = {"servers", "mcptools", "actions", "skills"} if folder == "/workspace" else set()
    if extra := sorted(set(os.listdir(folder)) - roots):
        note(f"{folder} holds {extra[:5]}")
    for name in roots & set(os.listdir(folder)):
        if os.readlink(f"{folder}/{name}") != f"/wrappers/current/{name}":
            note(f"{folder}/{name} is no link to the wrappers")
attempt("terminal", lambda: os.open("/dev/pts/0", os.O_RDWR | os.O_NOCTTY), "ENOENT")
""",
        fresh=True,
    ),
    Probe(
        probe_id="res-guest-code",
        claim="C-RES-1",
        title="find more of Moonpool than the guest's own code",
        program="""
import importlib.util
seen(str(sorted(os.listdir("/moonpool"))))
if set(os.listdir("/moonpool")) - {"moonpool_guest", "moonpool_wire"}:
    note(os.listdir("/moonpool"))
if importlib.util.find_spec("moonpool") is not None:
    note("the host's package can be imported")
""",
    ),
)
