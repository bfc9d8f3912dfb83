"""The two packages of the extra, imported when first needed: most processes never do."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from moonpool.embeddings.errors import DenseUnavailableError

REMEDY: Final = "install it with `pip install 'moonpool[dense]'`, or set MOONPOOL_DENSE=none"


def numpy() -> Any:
    """The module. Raises DenseUnavailableError."""
    return _module("numpy")


def onnxruntime() -> Any:
    """The module. Raises DenseUnavailableError."""
    return _module("onnxruntime")


def need_extra() -> None:
    """Raise DenseUnavailableError unless both are installed."""
    numpy()
    onnxruntime()


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise DenseUnavailableError(f"vector search needs the package {name}: {REMEDY}") from None
