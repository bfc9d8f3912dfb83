"""The claims of THREAT_MODEL.md, read from its table."""

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
