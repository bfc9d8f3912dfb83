"""What search costs: build, a question, memory; each catalog in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.groups.search import made_up_manifest, questions
from bench.sampling import median, percentile

SIZES: Final = (8_500, 100_000)
_LIMIT_S = 900.0
_ROOT = Path(__file__).parents[2]


class ScaleError(Exception):
    """One size could not be measured; the text says why."""


def measure_apart(tool_count: int) -> dict[str, Any]:
    """Measure one size in a fresh process, so that its memory is its own. Raises ScaleError."""
    command = [sys.executable, "-m", "bench.retrieval.scale", str(tool_count)]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, encoding="utf-8", timeout=_LIMIT_S, check=True)
    except subprocess.CalledProcessError as error:
        said = " ".join(error.stderr.split())[-300:]
        raise ScaleError(f"its process ended with {error.returncode}: {said or 'it said nothing'}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ScaleError(str(error)) from None
    return json.loads(done.stdout)


def _measure(tool_count: int) -> dict[str, Any]:
    from moonpool.catalog.catalog import Catalog  # noqa: PLC0415

    manifest = made_up_manifest(tool_count)
    asked = questions(manifest, 200)
    assert len(Catalog(made_up_manifest(100)).search("list files"))  # everything imported and warm
    before = _resident_kib()
    started = time.perf_counter()
    catalog = Catalog(manifest)
    build_s = time.perf_counter() - started
    added = _resident_kib() - before
    for query, _ in asked[:20]:
        catalog.search(query)
    samples: list[float] = []
    busy: list[float] = []
    for query, _ in asked:
        started, worked = time.perf_counter(), time.process_time()
        assert catalog.search(query)
        samples.append(1000 * (time.perf_counter() - started))
        busy.append(1000 * (time.process_time() - worked))
    server = manifest.servers[3]
    return {
        "tools": tool_count,
        "tools_per_server": len(server.tools),
        "build_s": round(build_s, 2),
        "memory_mib": round(added / 1024, 1),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "query_ms_p50": round(median(samples), 2),
        "query_ms_p95": round(percentile(samples, 0.95), 2),
        "query_cpu_ms_p95": round(percentile(busy, 0.95), 2),  # what a busy machine does not change much
    }


def _resident_kib() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
