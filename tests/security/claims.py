"""The claims of THREAT_MODEL.md, and its table of layers, read from the page."""

from __future__ import annotations

import re
from pathlib import Path

_DOCUMENT = Path(__file__).parents[2] / "THREAT_MODEL.md"
_ROW = re.compile(r"^\| (C-[A-Z]+-\d+) \| (.+) \|$", re.MULTILINE)


def read_claims() -> dict[str, str]:
    """Claims by id, in the document's order."""
    rows = _ROW.findall(_DOCUMENT.read_text(encoding="utf-8"))
    claims = dict(rows)
    assert len(claims) == len(rows), "a claim id stands in the table twice"
    return claims


def read_layers(backend: str) -> dict[str, set[str]]:
    """Layer -> probes that get through on `backend` when it is taken away."""
    _, _, text = _DOCUMENT.read_text(encoding="utf-8").partition("\n## Layers\n")
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    _, *layers = [cell.strip() for cell in lines[0].strip("|").split("|")]
    found: dict[str, set[str]] = {layer: set() for layer in layers}
    for line in lines[2:]:
        probe_id, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        for layer, cell in zip(layers, cells, strict=True):
            if cell in {"through", f"through ({backend})"}:
                found[layer].add(probe_id.strip("`"))
    return found
