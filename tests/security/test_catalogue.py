"""The catalogue of attacks: complete, and every name in it leads somewhere."""

from __future__ import annotations

import pytest

from moonpool.doctor.probes.catalogue import CATALOGUE
from security.claims import read_claims
from security.evidence import ROOT, catalogue, is_limitation, is_test
from tables import every_row

ENTRIES = catalogue()["entry"]
PROBES = {probe.probe_id for probe in CATALOGUE}
EVIDENCE = ("probes", "tests", "limitations", "stages")


def test_every_attack_has_one_entry_in_order() -> None:
    assert [entry["number"] for entry in ENTRIES] == list(range(1, len(ENTRIES) + 1))


def test_no_two_entries_have_the_same_title() -> None:
    assert len({entry["title"] for entry in ENTRIES}) == len(ENTRIES)


@every_row("entry", ENTRIES, ids=lambda entry: f"{entry['number']} {entry['title']}"[:60])
def test_an_entry_names_what_exists_and_each_thing_once(entry: dict[str, list[str]]) -> None:
    assert set(entry) <= {"number", "title", *EVIDENCE}
    named = [name for kind in EVIDENCE for name in entry.get(kind, [])]
    assert named
    assert len(named) == len({*named})
    assert [name for name in entry.get("probes", []) if name not in PROBES] == []
    assert [name for name in entry.get("tests", []) if not is_test(name)] == []
    assert [name for name in entry.get("limitations", []) if not is_limitation(name)] == []
    assert [name for name in entry.get("stages", []) if not (ROOT / name).is_file()] == []


def test_every_probe_is_an_entrys() -> None:
    used = {name for entry in ENTRIES for name in entry.get("probes", [])}
    assert PROBES - used == set()


def test_tests_that_attack_a_claim_exist() -> None:
    claims = catalogue()["claims"]
    assert set(claims) <= set(read_claims())
    assert [name for tests in claims.values() for name in tests if not is_test(name)] == []


@pytest.mark.req("P-035")
def test_ci_attacks_as_an_ordinary_user_too() -> None:
    assert "as_ordinary_user make test " in (ROOT / ".ci/as-ordinary-user.sh").read_text(encoding="utf-8")
    assert " bash .ci/as-ordinary-user.sh\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")
