"""The table of docs/reference/doctor.md. `python -m tests.security.doctor_page` writes it, a test compares."""

from __future__ import annotations

import re
from pathlib import Path

from moonpool.doctor.probes.catalogue import CATALOGUE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "doctor.md"
_BLOCK = re.compile(r"(?<=<!-- attacks: generated -->\n).*?(?=<!-- end -->)", re.DOTALL)


def table() -> str:
    rows = [
        f"| `{probe.probe_id}` | {probe.claim} | {probe.title} | {'yes' if probe.quick else 'no'} |"
        for probe in CATALOGUE
    ]
    return "\n".join(["| attack | claim | what is tried | quick |", "|---|---|---|---|", *rows]) + "\n"


def shown() -> str:
    found = _BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert found, "the page has lost its table"
    return found[0]


def write() -> None:
    PAGE.write_text(_BLOCK.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
