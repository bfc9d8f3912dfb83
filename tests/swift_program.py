"""OpenStack Swift with its S3 protocol, all four servers in this process. `swift_program.py FOLDER`; prints the port.

The folder must be on a file system with extended attributes. It ends at the end of its input. One device, one replica,
no caches and no daemons: what is written is there at once.

Runs in an environment of its own (`requirements/swift.txt`).
"""

from __future__ import annotations

import logging
import os
import pwd
import sys
from pathlib import Path
from typing import Final

from swift.common.utils import get_hub, monkey_patch, set_swift_dir

monkey_patch()

import eventlet  # noqa: E402  patched first
from eventlet.hubs import trampoline  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.wsgi import run_server  # noqa: E402

_DEVICE: Final = "d1"
_KINDS: Final = ("account", "container", "object")
_PIPELINE: Final = "catch_errors s3api tempauth copy slo dlo"


def main(folder: Path) -> None:
    (folder / "devices" / _DEVICE).mkdir(parents=True)
    (folder / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = tests\n", encoding="utf-8")
    set_swift_dir(str(folder))
    common = {
        "swift_dir": str(folder), "devices": str(folder / "devices"), "mount_check": "false", "workers": "0",
        "disable_fallocate": "true", "user": pwd.getpwuid(os.getuid()).pw_name, "log_level": "ERROR",
        "recon_cache_path": str(folder),
    }  # fmt: skip
    _keep_one_loop()
    sockets = {kind: eventlet.listen(("127.0.0.1", 0), backlog=128) for kind in (*_KINDS, "proxy")}
    for kind in _KINDS:
        _save_ring(folder, kind, sockets[kind].getsockname()[1])
        sections = {"DEFAULT": common, f"app:{kind}-server": {"use": f"egg:swift#{kind}"}}
        _start(folder, kind, {**sections, "pipeline:main": {"pipeline": f"{kind}-server"}}, sockets[kind])
    filters = {f"filter:{name}": {"use": f"egg:swift#{name}"} for name in _PIPELINE.split()}
    filters["filter:s3api"]["location"] = "us-east-1"
    filters["filter:tempauth"]["user_test_tester"] = "testing .admin"
    proxy = {"use": "egg:swift#proxy", "account_autocreate": "true"}
    pipeline = {"pipeline": f"{_PIPELINE} proxy-server"}
    sections = {"DEFAULT": common, "pipeline:main": pipeline, **filters, "app:proxy-server": proxy}
    _start(folder, "proxy", sections, sockets["proxy"])
    print(sockets["proxy"].getsockname()[1], flush=True)  # noqa: T201
    trampoline(sys.stdin.fileno(), read=True)
    os._exit(0)  # connections that are kept open would hold it


def _keep_one_loop() -> None:
    """Each server would take another loop in this thread, and stop the ones before it; other threads have their own."""
    choose = eventlet.hubs.use_hub
    choose(get_hub())
    eventlet.hubs.use_hub = lambda hub=None: choose() if hub is None else None


def _save_ring(folder: Path, kind: str, port: int) -> None:
    builder = RingBuilder(part_power=3, replicas=1, min_part_hours=1)
    place = {"ip": "127.0.0.1", "port": port, "replication_ip": "127.0.0.1", "replication_port": port}
    builder.add_dev({"region": 1, "zone": 1, "device": _DEVICE, "weight": 1.0, "meta": "", **place})
    builder.rebalance()
    builder.get_ring().save(str(folder / f"{kind}.ring.gz"))


def _start(folder: Path, kind: str, sections: dict[str, dict[str, str]], listening: object) -> None:
    place = folder / f"{kind}-server.conf"
    lines = [
        line
        for name, options in sections.items()
        for line in (f"[{name}]", *(f"{key} = {value}" for key, value in options.items()), "")
    ]
    place.write_text("\n".join(lines), encoding="utf-8")
    conf = {**sections["DEFAULT"], "__file__": str(place)}
    eventlet.spawn(run_server, conf, logging.getLogger(kind), listening, {"log_name": kind})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
