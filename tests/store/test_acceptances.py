"""What was accepted: kept, changed by several, never forgotten silently."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from moonpool.features.drift.database_table import AcceptanceRows
from moonpool.features.drift.model.acceptance import Accepted
from moonpool.features.drift.table import AcceptanceStore
from moonpool.store.paths import acceptance_dir
from tenant_databases import organisation, tenant_database, tenant_rows

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.features.drift.service import AcceptanceStorage

__all__ = ["organisation", "tenant_database", "tenant_rows"]
KEY = "sha256:" + "ab" * 32
ONE = Accepted(tools={"a": {"name": "a"}}, gone=frozenset("b"), noticed={"a": "sha256:1"})


@pytest.fixture(params=["disk", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> AcceptanceStorage:
    if request.param == "postgresql":
        return AcceptanceRows(request.getfixturevalue("tenant_rows"))
    return AcceptanceStore(acceptance_dir(tmp_path))


def test_what_is_kept_is_found_again_and_nothing_before(store: AcceptanceStorage) -> None:
    before = store.load(KEY)
    kept = store.update(KEY, lambda _: ONE)
    assert (before, kept, store.load(KEY)) == (None, True, ONE)


def test_the_stamp_moves_with_changes_only(store: AcceptanceStorage) -> None:
    stamps = [store.stamp(KEY)]
    for accepted in (ONE, ONE, replace(ONE, noticed={})):
        store.update(KEY, lambda _, new=accepted: new)
        stamps.append(store.stamp(KEY))
    assert [was == now for was, now in itertools.pairwise(stamps)] == [False, True, False]


def test_changes_of_many_all_count(store: AcceptanceStorage) -> None:
    def add(name: str) -> None:
        store.update(KEY, lambda now: replace(now or ONE, tools={**(now or ONE).tools, name: {"name": name}}))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, map(str, range(20))))
    found = store.load(KEY)
    assert found is not None
    assert set(found.tools) == {"a", *map(str, range(20))}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"[]", id="another shape"),
        pytest.param(b'{"format":1,"key":"other","accepted":{}}', id="another key"),
        pytest.param(b"[" * 100_000, id="bottomless"),
    ],
)
def test_a_damaged_file_is_not_a_missing_one(tmp_path: Path, content: bytes) -> None:
    store = AcceptanceStore(acceptance_dir(tmp_path))
    store.update(KEY, lambda _: ONE)
    (acceptance_dir(tmp_path) / f"{'ab' * 32}.json").write_bytes(content)
    found = store.load(KEY)
    assert found is not None
    assert (found.damaged, dict(found.tools)) == (True, {})


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("a file", encoding="utf-8")
    assert AcceptanceStore(acceptance_dir(tmp_path)).update(KEY, lambda _: ONE) is False


def test_a_key_never_names_another_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="digest"):
        AcceptanceStore(tmp_path).load("../../etc/passwd")
