"""Stored learned types outlive the process, for their owner only; a damaged file counts as empty."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from moonpool.features.learned_types.model import LearnedType
from moonpool.features.learned_types.table import FILE_BYTES_MAX, FILES_MAX, TOOLS_MAX, LearnedTypeStore

if TYPE_CHECKING:
    from pathlib import Path

KEY, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
LEARNED = LearnedType().with_result({"a": 1}).with_example({"q": "x"})


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def test_learned_types_are_kept_apart_and_private(tmp_path: Path) -> None:
    store = LearnedTypeStore(tmp_path / "lessons")
    assert store.save(KEY, {digest(1): LEARNED})
    assert store.save(KEY, {digest(2): LEARNED})

    assert store.load(KEY) == {digest(1): LEARNED, digest(2): LEARNED}
    assert store.load(OTHER) == {}
    modes = [stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "lessons", *(tmp_path / "lessons").iterdir()]]
    assert modes == [0o700, 0o600]


@pytest.mark.parametrize(
    "content", [b"", b"[1]", b'{"format":9,"tools":{}}', b'{"format":1,"tools":{"x":3}}', b"{" * 9999]
)
def test_a_damaged_file_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    store = LearnedTypeStore(tmp_path)
    store.save(KEY, {digest(1): LEARNED})
    next(tmp_path.glob("*.json")).write_bytes(content)

    assert store.load(KEY) == {}
    assert store.save(KEY, {digest(2): LEARNED})


def test_a_store_is_bounded(tmp_path: Path) -> None:
    store = LearnedTypeStore(tmp_path)
    store.save(KEY, {digest(number): LEARNED for number in range(TOOLS_MAX + 50)})
    for number in range(FILES_MAX + 5):
        store.save(digest(number), {digest(1): LEARNED})

    assert len(list(tmp_path.glob("*.json"))) == FILES_MAX
    store.save(KEY, {digest(number): LEARNED for number in range(TOOLS_MAX + 50)})
    assert list(store.load(KEY)) == [digest(number) for number in range(50, TOOLS_MAX + 50)]
    assert all(path.stat().st_size <= FILE_BYTES_MAX for path in tmp_path.iterdir())


def test_a_key_that_is_no_digest_names_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        LearnedTypeStore(tmp_path).load("../x")


def test_a_folder_that_cannot_be_written_costs_the_learned_type_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    assert LearnedTypeStore(tmp_path / "file").save(KEY, {digest(1): LEARNED}) is False
