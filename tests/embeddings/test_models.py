"""What is said when there is no extra, no model or a damaged one. That models rank well is shown by the bench."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING

import pytest

from moonpool.bootstrap.models import make_model, vector_maker
from moonpool.core.errors import ConfigError
from moonpool.core.manifest import Manifest
from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.embeddings.models import open_model
from moonpool.embeddings.weights import read_checked
from moonpool.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("package", ["numpy", "onnxruntime"])
def test_without_the_extra_nothing_is_fetched_and_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(DenseUnavailableError, match=rf"needs the package {package}: .*pip install 'moonpool\[dense\]'"):
        make_model(tmp_path, {})
    assert list(tmp_path.iterdir()) == []


def test_without_a_model_the_remedy_is_named(tmp_path: Path) -> None:
    maker = vector_maker(Settings.load({"MOONPOOL_DENSE": "minilm"}), tmp_path)
    assert maker is not None
    with pytest.raises(DenseUnavailableError, match="moonpool catalog build-model"):
        maker.similarity(Manifest())


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    digests = {name: hashlib.sha256(b"whole").hexdigest() for name in ("vocab.txt", "minilm.onnx")}
    (tmp_path / "minilm.json").write_text(json.dumps({"version": 1, "sha256": digests}), encoding="utf-8")
    (tmp_path / "vocab.txt").write_bytes(b"whole")
    (tmp_path / "minilm.onnx").write_bytes(b"half")
    with pytest.raises(DenseUnavailableError, match="damaged"):
        open_model(tmp_path)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"other words")
    with pytest.raises(DenseUnavailableError, match="not the published file"):
        read_checked(tmp_path, "vocab.txt")


def test_words_alone_is_the_default(tmp_path: Path) -> None:
    assert vector_maker(Settings.load({}), tmp_path) is None


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"dense must be minilm or none, but is 'large'$"):
        Settings.load({"MOONPOOL_DENSE": "large"})


def test_the_removed_kind_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="removed: set MOONPOOL_DENSE=minilm and run `moonpool catalog build-model`"):
        Settings.load({"MOONPOOL_DENSE": "static"})
