"""`Workbench`: a session with its files, and bytes to move."""

from __future__ import annotations

import asyncio
import io
import tarfile
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from moonpool.engine.code_request import CodeRequest
from moonpool.engine.files.service import SessionFiles
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject
    from moonpool.engine.files.service import FileReceipt
    from moonpool.engine.sessions import Session

LEFTOVERS = """
import os
result = sorted(
    os.path.join(folder, name)
    for top in ('/workspace', '/home/user', '/tmp', '/dev/shm')
    for folder, folders, names in os.walk(top)
    for name in [*folders, *names]
    if name not in ('servers', 'mcptools')
)
"""
USED_BYTES = "import os; s = os.statvfs('/workspace'); result = (s.f_blocks - s.f_bfree) * s.f_frsize"


async def source(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@dataclass
class Workbench:
    app: Tenant
    session: Session

    @property
    def files(self) -> SessionFiles:
        return self.session.files

    def with_limits(self, **changes: Any) -> SessionFiles:
        files = self.session.files
        return SessionFiles(self.session, replace(files._limits, **changes), files._recorder)

    async def run(self, code: str) -> Any:
        """Run code and return its result."""
        envelope = await self.execute(code)
        assert envelope.error is None, envelope
        return envelope.data

    async def execute(self, code: str) -> Envelope:
        return await self.session.execute(CodeRequest(code=textwrap.dedent(code).encode()))

    async def put(self, path: str, data: bytes, **options: Any) -> FileReceipt:
        return await self.files.put(path, source(data), **options)

    async def get(self, path: str) -> bytes:
        taken = bytearray()

        async def sink(piece: bytes) -> None:
            taken.extend(piece)

        receipt = await self.files.get(path, sink)
        assert receipt.size == len(taken)
        return bytes(taken)

    async def archive(self, path: str = ".") -> tuple[FileReceipt, bytes]:
        taken = bytearray()

        async def sink(piece: bytes) -> None:
            taken.extend(piece)

        return await self.files.archive(path, sink), bytes(taken)

    async def names(self, path: str = ".") -> list[str]:
        listing = await self.files.list(path, recursive=True)
        return [entry.path for entry in listing.entries if entry.path not in {"servers", "mcptools"}]

    async def leftovers(self) -> Any:
        return await self.run(LEFTOVERS)

    async def transfers(self) -> list[JsonObject]:
        """This session's transfers on record."""
        rows = await asyncio.to_thread(list, read_rows(journal_path(self.app.data), tail=50))
        members = [row.to_json() for row in rows]
        return [
            row for row in members if row["kind"] == "file_transfer" and row["session_id"] == self.session.session_id
        ]


def tar_of(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> bytes:
    """A tar file of just these members, however odd."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode, format=tarfile.PAX_FORMAT) as tar:  # pyright: ignore[reportCallIssue, reportArgumentType]
        for info, content in members:
            info.size = info.size or len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content
