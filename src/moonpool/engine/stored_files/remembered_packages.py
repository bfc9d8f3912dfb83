"""Packages that code of a thread installed: remembered with its tree, and there again at its next execution.

They stand in a file of the tree that no sandbox sees and the Files API does not write. SECURITY: it is read as a
request of whoever may write to the thread all the same: bounded, typed, and allowed as any installation is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from moonpool.engine.packages.store import WheelRef
from moonpool.features.storage.model import RESERVED

if TYPE_CHECKING:
    from moonpool.engine.packages.service import KernelPackages
    from moonpool.features.storage.base import Snapshot, TreeWriter

PATH: Final = f"{RESERVED}/packages.json"
_BYTES_MAX: Final = 256 * 1024
_Text = Annotated[str, Meta(min_length=1, max_length=1000)]


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What a thread's code has installed."""

    requirements: Annotated[dict[_Text, _Text], Meta(max_length=500)]
    wheels: Annotated[list[WheelRef], Meta(max_length=1000)]


_decode = msgspec.json.Decoder(Remembered).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(kw_only=True)
class RememberedPackages:
    """Those of one thread, for one execution. The session fills `kernel` in."""

    snapshot: Snapshot
    kernel: KernelPackages | None = None
    _digest: str = field(default="", init=False)  # of what was there before the code

    async def read(self) -> Remembered | None:
        """What the thread remembers; None for nothing, or for what is no such file. Raises StorageError."""
        entry = self.snapshot.tree.find(PATH)
        if entry is None or entry.kind != "file" or not 0 < entry.size <= _BYTES_MAX:
            return None
        try:
            return _decode(b"".join([chunk async for chunk in self.snapshot.read(entry)]))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def begin(self, kernel: KernelPackages) -> None:
        """Code begins, with what `kernel` has."""
        self.kernel, self._digest = kernel, kernel.installed.digest

    async def write(self, writer: TreeWriter) -> bool:
        """Have `writer` remember what is installed now, if that changed."""
        if self.kernel is None or self.kernel.installed.digest == self._digest:
            return False
        installed = self.kernel.installed
        wheels = [WheelRef(name=one.name, version=one.version, sha256=one.sha256) for one in installed.packages]
        content = _encode(Remembered(requirements=dict(installed.requirements), wheels=wheels))
        await writer.begin_file(PATH, size=len(content), modified_ns=time.time_ns())
        await writer.write(content)
        return True
