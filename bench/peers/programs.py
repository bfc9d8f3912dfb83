"""Programs to compare with, started by a small process beside us (`bench.peers.spawner`).

SECURITY: as root the programs run under a uid that no account has, as Moonpool's own sandboxes do.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers.spawner import FILTER_FD
from moonpool.sandboxes import seccomp
from moonpool.sandboxes.identity import UID_COUNT, UID_FIRST
from moonpool.sandboxes.process import filter_fd, find_launcher

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from moonpool.sandboxes.base import ImageSpec

_TIMEOUT_S = 120.0
_LINE_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command line, its whole environment and what it must print."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    prints: str | None = None
    filter_fd: int | None = None


@dataclass(frozen=True, slots=True)
class Spawner:
    """The process beside us."""

    process: asyncio.subprocess.Process

    async def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        async with asyncio.timeout(_TIMEOUT_S):
            line = await self.process.stdout.readline()
        assert line, "the spawner has ended"
        return json.loads(line)

    async def run(self, program: Program, count: int, *, in_flight: int = 1) -> dict[str, Any]:
        """Run it `count` times; every run must end well and print what it should."""
        order = {"argv": program.argv, "env": dict(program.env), "count": count, "in_flight": in_flight}
        answer = await self.ask({**order, "filter_fd": program.filter_fd})
        assert answer["codes"] == [0], f"{program.argv[0]} ended with {answer['codes']}"
        assert program.prints is None or answer["outputs"] == [program.prints], answer["outputs"]
        return answer

    async def times_ms(self, program: Program, count: int) -> list[float]:
        return [1000 * seconds for seconds in (await self.run(program, count))["seconds"]]


@asynccontextmanager
async def open_spawner(
    python: Path, env: Mapping[str, str], *, fds: Sequence[int] = (), own_uid: bool = False
) -> AsyncGenerator[Spawner]:
    """Start a spawner on `python`; as root under another uid unless `own_uid`."""
    drops = os.geteuid() == 0 and not own_uid
    uid = UID_FIRST + UID_COUNT - 1
    who: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": ()} if drops else {}
    process = await asyncio.create_subprocess_exec(
        *(python, "-I", "-S", "-c", (Path(__file__).parent / "spawner.py").read_text(encoding="utf-8")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        pass_fds=fds,
        env=dict(env),
        cwd="/",
        limit=_LINE_BYTES_MAX,
        **who,
    )
    try:
        yield Spawner(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def seccomp_fd() -> int:
    """The filter that our own sandboxes get, as an open file."""
    return filter_fd(seccomp.sandbox_filter())


def plain_python(image: ImageSpec, code: str = "print(1+1)", prints: str = "2\n") -> Program:
    """The environment's interpreter on one line of code, without isolation."""
    return Program(argv=(str(image.python), "-I", "-S", "-c", code), env=image.variables, prints=prints)


def importing_python(image: ImageSpec, scratch: Path) -> Program:
    """The same, importing what the `data` environment preloads."""
    paths = [str(path) for path in image.site_paths]
    code = f"import sys; sys.path[:0] = {paths!r}\nimport numpy, pandas, matplotlib, IPython\nprint(1+1)"
    folders = {"HOME": str(scratch), "MPLCONFIGDIR": str(scratch), "IPYTHONDIR": str(scratch)}
    program = plain_python(image, code)
    return Program(argv=program.argv, env={**program.env, **folders}, prints=program.prints)


def walled_python(image: ImageSpec, filter_fd: int) -> Program:
    """bubblewrap with all namespaces, our filter and bounded file systems around the same line of code."""
    launcher = find_launcher()
    assert launcher is not None
    program = plain_python(image)
    variables = [word for name, value in image.variables.items() for word in ("--setenv", name, value)]
    binds = [word for path in image.binds for word in ("--ro-bind", str(path), str(path))]
    argv = (str(launcher), *_NAMESPACES, *variables, *_ROOT, *binds, *_MOUNTS, "--seccomp", str(FILTER_FD), "--")
    return Program(argv=(*argv, *program.argv), env={}, prints=program.prints, filter_fd=filter_fd)


_NAMESPACES = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"),
    *("--uid", "65534", "--gid", "65534", "--die-with-parent", "--new-session", "--hostname", "cell", "--clearenv"),
    *("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/home/user", "--setenv", "LANG", "C.UTF-8"),
)
_ROOT = (
    *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--symlink", "usr/sbin", "/sbin"),
    *("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--ro-bind-try", "/etc/ssl/certs", "/etc/ssl/certs"),
    *("--ro-bind-try", "/etc/alternatives", "/etc/alternatives"),
)
_MOUNTS = (
    *("--proc", "/proc", "--dev", "/dev", "--size", "1048576", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
    *("--size", "67108864", "--tmpfs", "/tmp"),
    *("--size", "268435456", "--perms", "0700", "--tmpfs", "/home/user", "--chdir", "/home/user"),
    *("--cap-drop", "ALL", "--disable-userns", "--remount-ro", "/"),
)
