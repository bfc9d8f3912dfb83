"""Where tool servers of this user listen, and which tokens they take: private files, one for each port.

SECURITY: a token is made at each start. It is in no sandbox, and no other user can read it. Whoever may call tools may
not answer for them: the two have a token each. A file whose process has ended names nobody: its port may be another's.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from moonpool.net.loopback_addresses import LoopbackAddress, loopback_address
from moonpool.settings import Settings
from moonpool.store.paths import data_dir
from moonpool.store.private_files import private_folder, replace_private_file
from moonpool.store.process_marks import is_gone, own_mark

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one start of a tool server takes."""

    call: str = field(default_factory=lambda: token_urlsafe(32), repr=False)
    """For `/run`, `/approve` and `/reset`."""
    approval: str = field(default_factory=lambda: token_urlsafe(32), repr=False)
    """For `/approval`."""
    process: str = field(default_factory=own_mark)


def address_of(host: str, port: int) -> LoopbackAddress:
    """The address of a tool server. Raises ConfigError for one that other machines reach."""
    return loopback_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", what="host and port")


def publish(address: LoopbackAddress, access: Access) -> Path:
    """Let clients of this user find it; its file is to be removed at the end. Raises StoreFolderError, OSError."""
    path = _path(address)
    private_folder(path.parent)
    replace_private_file(path, json.dumps(asdict(access)).encode(), durable=False)
    return path


def access_to(host: str, port: int) -> tuple[LoopbackAddress, Access]:
    """The tool server there. Raises RuntimeError when none of this user runs, ConfigError."""
    address = address_of(host, port)
    try:
        access = Access(**json.loads(_path(address).read_bytes()))
    except FileNotFoundError:
        access = None
    except (OSError, ValueError, TypeError) as error:
        raise RuntimeError(f"{_path(address)} cannot be read: {error}") from None
    if access is None or is_gone(access.process):
        raise RuntimeError(f"no tool server of yours runs at {host}:{port}; start a ToolServer")
    return address, access


def _path(address: LoopbackAddress) -> Path:
    data = Settings.load(os.environ).data_dir or data_dir(os.geteuid(), os.environ)
    return data / "private" / "ipybox" / "tool-servers" / f"{address.netloc}.json"
