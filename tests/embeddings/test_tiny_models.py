"""The model and the cache of vectors, with weights made here. `make setup` installs the extra that they need."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from embeddings import tiny
from moonpool.bootstrap.models import VectorMaker
from moonpool.catalog.catalog import Catalog
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.embeddings import minilm, models, weights
from moonpool.embeddings.arrays import numpy
from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.embeddings.vectors import ToolVectors, VectorCache
from moonpool.embeddings.wordpiece import CLS, SEP, WordPiece

if TYPE_CHECKING:
    from pathlib import Path

np: Any = numpy()

PIECES = WordPiece(tiny.VOCABULARY)


@dataclass(frozen=True)
class Text:
    name: str
    text: str


@dataclass
class Counting:
    """Embeds by the number of letters, and says how often."""

    word_share: float = 0.5
    floor: float = 0.0
    bonus_share: float = 1.0
    name_share: float = 0.25
    asked: int = 0

    def embed(self, texts: Any) -> Any:
        self.asked += len(texts)
        return np.array([[len(text) / 3, 1.0, 0.0] for text in texts], dtype=np.float32)


class File:
    content = b""

    def cache(self) -> VectorCache:
        return VectorCache(lambda: self.content, self.write)

    def write(self, content: bytes) -> None:
        self.content = content


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "WIDTH", tiny.WIDTH)
    monkeypatch.setattr(minilm, "_HEADS", tiny.HEADS)
    monkeypatch.setattr(minilm, "_LAYERS", 1)


@pytest.fixture
def built(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model."""
    files = {"vocab.txt": tiny.VOCABULARY.encode(), "model.safetensors": tiny.safetensors(tiny.arrays(np))}
    source, folder = tmp_path / "weights", tmp_path / "models"
    source.mkdir()
    folder.mkdir()
    for name, content in files.items():
        (source / name).write_bytes(content)
        monkeypatch.setitem(weights.DIGESTS, name, hashlib.sha256(content).hexdigest())
    models.build_model(source, folder, lambda path, content: path.write_bytes(content) and None)
    return folder


def keys(*names: str) -> Manifest:
    tools = tuple(ToolDefinition(server_id="s", name=name, raw={"name": name}) for name in names)
    return Manifest(servers=(ServerListing(server_id="s", tools=tools),))


def test_the_network_answers_nearly_as_with_whole_numbers(built: Path) -> None:
    model, _ = models.open_model(built)
    exact = tiny.expected(np, tiny.arrays(np), [CLS, *PIECES.pieces("send mail"), SEP])
    row = model.embed(["send mail"])[0]

    assert float(np.linalg.norm(row)) == pytest.approx(1.0, abs=1e-5)
    assert float(row @ exact / np.linalg.norm(exact)) > 0.99


def test_a_text_has_one_vector_whatever_is_asked_beside_it(built: Path) -> None:
    model, digest = models.open_model(built)
    alone, beside = model.embed(["send mail"]), model.embed(["read a file in the rain", "send mail"])

    assert len(digest) == 64
    assert alone.shape == (1, tiny.WIDTH)
    assert (alone[0] == beside[1]).all()
    assert not (beside[0] == beside[1]).all()


@pytest.mark.parametrize("package", ["numpy", "onnxruntime"])
def test_a_model_without_the_extra_names_the_remedy(built: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed any more
    with pytest.raises(DenseUnavailableError, match=rf"needs the package {package}: .*set MOONPOOL_DENSE=none"):
        VectorMaker(built).cached(keys("send_mail"))


def test_a_tool_is_the_mean_of_its_name_and_its_text() -> None:
    model = Counting()
    rows = File().cache().rows(model, [Text("abc", "abcdefghi")], lambda: False)

    assert rows[0].tolist() == pytest.approx([0.25 * 1 + 0.75 * 3, 1.0, 0.0], abs=1e-2)
    assert ToolVectors(model, rows).to_tools("abc") == pytest.approx([3.5], abs=1e-2)
    assert ToolVectors(model, File().cache().rows(model, [], lambda: False)).to_tools("abc") == []  # saved actions only


def test_what_is_filed_is_not_embedded_again_and_ranks_the_same() -> None:
    file, first, second = File(), Counting(), Counting()
    texts = [Text("a", "one third of ten"), Text("b", "b")]
    made = file.cache().rows(first, texts, lambda: False)
    read = file.cache().rows(second, [*texts, Text("new", "new")], lambda: False)

    assert (first.asked, second.asked) == (4, 2)
    assert (read[:2] == made).all()


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-1], lambda _: b"\0\0\0\0", lambda _: b"\xff"], ids=["short", "0", "bits"]
)
def test_a_damaged_file_is_made_again(damage: Any) -> None:
    file = File()
    file.cache().rows(Counting(), [Text("a", "a")], lambda: False)
    whole, file.content = file.content, damage(file.content)
    model = Counting()
    file.cache().rows(model, [Text("a", "a")], lambda: False)

    assert model.asked == 2
    assert file.content == whole


def test_stopping_files_nothing() -> None:
    file = File()
    assert file.cache().rows(Counting(), [Text("a", "a")], lambda: True) is None
    assert file.content == b""


def test_a_full_cache_keeps_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moonpool.embeddings.vectors.CACHED_MAX", 2)
    file = File()
    file.cache().rows(Counting(), [Text("a", "a"), Text("b", "b")], lambda: False)
    file.cache().rows(Counting(), [Text("c", "c")], lambda: False)
    model = Counting()
    file.cache().rows(model, [Text("c", "c"), Text("a", "a")], lambda: False)

    assert model.asked == 2  # only "a" was gone


def test_a_command_uses_what_a_session_made_and_makes_nothing(built: Path) -> None:
    manifest = keys("send_mail", "read_file", "rain")
    maker = VectorMaker(built)

    assert maker.cached(manifest) is None
    assert maker.similarity(manifest, Event()) is not None
    similarity = VectorMaker(built).cached(manifest)
    assert similarity is not None
    catalog = Catalog(manifest)
    catalog.use_similarity(similarity)
    assert catalog.search("rain", limit=1)[0].path == "servers.s.rain"
    assert maker.cached(keys("send_mail", "other")) is None
