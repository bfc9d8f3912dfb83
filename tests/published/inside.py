"""Runs in a network namespace of its own: Everything over both HTTP transports, and code that uses it.

It listens on every interface, so there must be none but the loopback. `inside.py FOLDER`; prints `moonpool run`'s line.
FOLDER holds `servers.json`, which names the ports, and `code.py`.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

_WITHOUT_RIGHTS = ["setpriv", "--inh-caps=-all", "--ambient-caps=-all"] if os.geteuid() else []
_SIOCSIFFLAGS, _UP_AND_RUNNING = 0x8914, 0x1 | 0x40


def main(folder: Path, node: str, script: str, *servers: str) -> int:
    """`servers`: TRANSPORT=PORT."""
    _lift_loopback()
    with ExitStack() as stack:
        for server in servers:
            transport, _, port = server.partition("=")
            process = subprocess.Popen(
                [node, script, transport], env={**os.environ, "PORT": port}, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stderr is not None
            while b"port" not in process.stderr.readline():
                assert process.poll() is None
        moonpool = str(Path(sys.executable).with_name("moonpool"))
        with (folder / "code.py").open("rb") as code:
            return subprocess.run(
                [*_WITHOUT_RIGHTS, moonpool, "run", "--config", folder / "servers.json", "-"], stdin=code, check=False
            ).returncode


def _lift_loopback() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
