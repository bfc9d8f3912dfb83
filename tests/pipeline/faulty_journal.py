"""Run by `test_journal_faults`: calls over the real journal in FOLDER until it fails, and again once it does not.

    python faulty_journal.py FOLDER limit|full

`limit`: no file of this process may grow beyond what it has. `full`: FOLDER is a small file system, filled up first.
Prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import anyio

from call_contexts import changed
from moonpool.core.json import digest_json
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.redaction.redactor import Redactor
from moonpool.store.journal import open_journal
from moonpool.store.journal_reading import read_rows, verify_file
from pipeline.test_pipeline import Bench, type_of

_CALLS_MAX = 2000


async def main(folder: Path, way: str) -> None:
    bench = Bench()
    bench.session = changed(bench.session, limits=type(bench.session.grant.limits)(calls_max=10 * _CALLS_MAX))
    path, filler = folder / "private" / "audit.sqlite3", folder / "filler"
    async with open_journal(path) as journal:
        bench.pipeline = CallPipeline({"s": bench.upstream}, journal=journal, redactor=Redactor.of_values({}))
        first = type_of(await bench.call("write", n=0))
        close(way, path, filler)
        refused = ""
        for number in range(1, _CALLS_MAX):
            left = len(bench.upstream.calls)
            refused = type_of(await bench.call("write", n=number))
            if refused and len(bench.upstream.calls) == left:
                break
        read = await bench.call("read")
        again = type_of(await bench.call("write", n="again"))
        open_again(way, filler)
        after = [type_of(await bench.call(name, **arguments)) for name, arguments in AFTER]
    rows = list(read_rows(path))
    intents = {row.to_json()["arguments_digest"] for row in rows if row.kind == "call_intent"}
    seen = [digest_json(arguments) for name, arguments in bench.upstream.calls if name == "write"]
    found = {
        "first": first,
        "refused": refused,
        "read": [type_of(read), read.raw],
        "again": again,
        "after": after,
        "without_intent": len(set(seen) - intents),
        "chain": verify_file(path).ok,
    }
    sys.stdout.write(json.dumps(found) + "\n")


AFTER: tuple[tuple[str, dict[str, Any]], ...] = (("write", {"n": "after"}), ("read", {}))


def close(way: str, path: Path, filler: Path) -> None:
    if way == "limit":
        size = path.with_name(f"{path.name}-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        return
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def open_again(way: str, filler: Path) -> None:
    if way == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        filler.unlink()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
