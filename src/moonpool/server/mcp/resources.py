"""Files that code made, as resources: `moonpool://SESSION/PATH`, where SESSION is a session that the client named, or
the run id of code that ran without a session.

Files of a session are read in its sandbox, files of a run from its artifacts. A connection has one principal and knows
only its own sessions and runs.

SECURITY: an address names only something below `/workspace`. Of a run only the files that its envelope listed can be
read; the client's string is looked up, never joined to a path on this machine. A file that claims to be an image but is
none is returned as bytes of unknown type.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_to_bytes

from moonpool.core.created_files import UNKNOWN_TYPE, type_of_name
from moonpool.engine.files.errors import FileMissingError, FileTooLargeError, shown
from moonpool.redaction.redactor import Tally
from moonpool_wire.filenames import PLACES, NameFault, split_place
from moonpool_wire.pictures import SUFFIXES, read_facts

if TYPE_CHECKING:
    from moonpool.core.created_files import MadeFile
    from moonpool.core.envelope import Envelope
    from moonpool.redaction.redactor import Redactor
    from moonpool.server.mcp.sessions import McpSessions

SCHEME: Final = "moonpool://"
TEMPLATE: Final = "moonpool://{session}/{+path}"
BYTES_MAX: Final = 4 * 1024**2
"""Limit for one resource: it is sent in one line of JSON, as base64 unless it is text."""

LISTED_MAX: Final = 200
"""How many of the latest files of runs are listed and can be read."""

_TEXTS: Final = ("text/", "application/json", "application/jsonl", "application/yaml", "application/xml", "image/svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The bytes of a resource, and its text if it is text."""

    uri: str
    mime: str
    data: bytes
    text: str | None


class McpResources:
    """The resources of one connection."""

    def __init__(self, sessions: McpSessions, redactor: Redactor) -> None:
        self._sessions, self._redactor = sessions, redactor
        self._files: OrderedDict[str, tuple[MadeFile, str | None]] = OrderedDict()  # file and session; the latest last

    def know(self, envelope: Envelope, session: str | None) -> None:
        """Remember the files that an execution made."""
        for file in envelope.made.files:
            if file.path is not None:
                uri = uri_of(session or envelope.run_id, file.name)
                self._files[uri] = (file, session)
                self._files.move_to_end(uri)
        while len(self._files) > LISTED_MAX:
            self._files.popitem(last=False)

    def listed(self) -> list[tuple[str, MadeFile]]:
        """Addresses and files, the latest first. Those of a session that has ended are gone."""
        there = [(uri, file) for uri, (file, name) in self._files.items() if name is None or self._sessions.has(name)]
        return there[::-1]

    async def read(self, uri: str) -> Contents:
        """Read one. Raises FileTransferError; FileMissingError if this client has no such file."""
        name, path = _parsed(uri)
        if self._sessions.has(name):
            data = await self._from_session(name, path)
        else:
            data = await self._from_run(uri_of(name, path))
        data = await asyncio.to_thread(self._redactor.data, data, Tally())
        mime = _checked_type(path, data)
        text: str | None = None
        if mime.startswith(_TEXTS):
            try:
                text = data.decode()
            except UnicodeDecodeError:
                mime = UNKNOWN_TYPE
        return Contents(uri=uri, mime=mime, data=data, text=text)

    async def _from_session(self, name: str, path: str) -> bytes:
        read = bytearray()

        async def sink(piece: bytes) -> None:
            read.extend(piece)
            if len(read) > BYTES_MAX:
                raise _too_large(path)

        await self._sessions.read_file(name, path, sink)
        return bytes(read)

    async def _from_run(self, uri: str) -> bytes:
        file, session = self._files.get(uri, (None, None))
        if file is None or file.path is None or session is not None:  # SECURITY: its path is the sandbox's, not ours
            raise _missing(uri)
        if file.size > BYTES_MAX:
            raise _too_large(file.name)
        try:
            data = await asyncio.to_thread(_read_bounded, Path(file.path))
        except OSError:
            del self._files[uri]
            raise FileMissingError(
                f"{shown(uri)} was removed to make space for later files (artifact_total_bytes_max); run the code again"
            ) from None
        if len(data) > BYTES_MAX:
            raise _too_large(file.name)
        return data


def uri_of(session: str, path: str) -> str:
    """The address of a file below `/workspace`."""
    return f"{SCHEME}{quote(session, safe='')}/{quote(path)}"


def _parsed(uri: str) -> tuple[str, str]:
    """Session and path of an address, unchanged. Raises FileMissingError."""
    name, slash, path = uri.removeprefix(SCHEME).partition("/")
    try:
        session, path = (unquote_to_bytes(part).decode() for part in (name, path))
        place, below = split_place(path)
    except (UnicodeDecodeError, UnicodeEncodeError, NameFault):
        raise _missing(uri) from None
    if not uri.startswith(SCHEME) or not slash or not session or path.startswith("/") or below == ".":
        raise _missing(uri)
    assert place == PLACES[0]
    return session, below


def _missing(uri: str) -> FileMissingError:
    return FileMissingError(
        f"there is no resource {shown(uri)}; addresses are {SCHEME}SESSION/PATH with a session of this connection, or "
        "those that resources/list gives"
    )


def _too_large(path: str) -> FileTooLargeError:
    return FileTooLargeError(f"{shown(path)} is larger than {BYTES_MAX:,} bytes; let code take a part of it")


def _read_bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(BYTES_MAX + 1)


def _checked_type(path: str, data: bytes) -> str:
    """The type that the name implies; for images only if their first bytes agree."""
    claimed = type_of_name(path)
    if claimed in SUFFIXES:
        facts = read_facts(data)
        return UNKNOWN_TYPE if facts is None else facts.mime
    return claimed
