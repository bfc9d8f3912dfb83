# ruff: noqa: F821  `make demo` puts a line `HOST_FILE = ...` before the code
"""What hostile code might try. It runs in the sandbox; every attempt must end in an error, and `result` says in which.

`HOST_FILE` is the path of a file on the host.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path

from servers.git import git_reset_sync


def find_credential() -> str:
    """Look for the token that the git server was started with."""
    everything = repr(dict(os.environ)) + "".join(
        path.read_text(errors="replace") for path in Path("/proc").glob("[0-9]*/environ")
    )
    return everything[everything.index("DEMO_TOKEN") :]


def end_of(attempt: Callable[[], object]) -> str:
    """Run `attempt` and say how it ended."""
    try:
        return f"GOT THROUGH: {attempt()!r}"
    except Exception as error:  # noqa: BLE001  that it fails is the point
        return f"{type(error).__name__}: {error}"


result = {
    "read a file of the host": end_of(Path(HOST_FILE).read_text),
    "read the host's passwords": end_of(Path("/etc/shadow").read_text),
    "open a connection": end_of(lambda: socket.create_connection(("192.0.2.1", 443), timeout=2)),
    "ask a name server": end_of(lambda: socket.getaddrinfo("example.org", 443)),
    "find a server's credential": end_of(find_credential),
    "call a tool unapproved": end_of(lambda: git_reset_sync(repo_path=".").unwrap()),
}
