"""What a probe may know of the service: `/healthz` and `/readyz`. They need no credential and say nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.responses import PlainTextResponse, Response


@dataclass(slots=True)
class Readiness:
    """The phase of a service. It is ready once a sandbox of the default environment was opened."""

    phase: Literal["starting", "ready", "draining"] = "starting"


def healthz() -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n", headers={"cache-control": "no-store"})


def readyz(readiness: Readiness) -> Response:
    """Whether requests should be sent here."""
    ready = readiness.phase == "ready"
    return PlainTextResponse(f"{readiness.phase}\n", 200 if ready else 503, {"cache-control": "no-store"})
