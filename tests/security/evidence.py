"""Where attacks stand: probes, tests marked with a claim, and the tests that the catalogue names."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from moonpool.doctor.probes.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
_MARK = re.compile(r"pytest\.mark\.claim\(([^)]*)\)")
_TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


@cache
def catalogue() -> dict[str, Any]:
    """`catalogue.toml`: the attacks that others found to be worth trying, and where each is tried here."""
    return tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))


def attacks_by_claim() -> dict[str, list[str]]:
    """Claim id to what attacks it."""
    found: dict[str, list[str]] = {}
    for probe in CATALOGUE:
        found.setdefault(probe.claim, []).append(probe.probe_id)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for words in _MARK.findall(path.read_text(encoding="utf-8")):
            for claim in re.findall(r'"([\w-]+)"', words):
                found.setdefault(claim, []).append(path.relative_to(ROOT).as_posix())
    for claim, tests in catalogue()["claims"].items():
        found.setdefault(claim, []).extend(tests)
    return found


@cache
def tests_in(path: str) -> frozenset[str]:
    """Names of the tests of a file, `path` as git knows it; none if there is no such file."""
    file = ROOT / path
    return frozenset(_TEST.findall(file.read_text(encoding="utf-8"))) if file.is_file() else frozenset()


def is_test(node_id: str) -> bool:
    path, _, name = node_id.partition("::")
    return name in tests_in(path)


def is_limitation(reference: str) -> bool:
    """`page: the bold words a bullet begins with` names something that docs/limitations says."""
    page, _, words = reference.partition(": ")
    file = ROOT / "docs" / "limitations" / f"{page}.md"
    return file.is_file() and f"- **{words}" in " ".join(file.read_text(encoding="utf-8").split())
