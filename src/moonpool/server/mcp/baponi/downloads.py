"""`files_download`: one file of a thread or volume as content for a model.

SECURITY: what is not there, lies elsewhere, is a link or belongs to somebody else is one and the same to a client.
Text passes the tenant's redactor; pictures are as they are.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.created_files import UNKNOWN_TYPE, type_of_name
from moonpool.core.errors import InputError
from moonpool.features.storage.model import TreeName, UnknownTreeError, checked_path
from moonpool.pipeline.validation import LARGE_BYTES
from moonpool.redaction.redactor import Tally
from moonpool_wire.pictures import SUFFIXES, read_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.features.storage.base import OrganisationTrees, Snapshot
    from moonpool.features.storage.model import Entry, TreeKind
    from moonpool.redaction.redactor import Redactor
    from moonpool.server.mcp.sandbox_services import CallerSetup

INLINE_BYTES_MAX: Final = 1024**2
_TEXTS: Final = ("text/", "application/json", "application/jsonl", "application/yaml", "application/xml", "image/svg")
_MISSING: Final = (
    "There is no such file. Check source, id and path (relative to the storage root, such as output/chart.png); "
    "POST /v1/files/list of the REST Files API shows what is there."
)


class DownloadError(Exception):
    """Why there is no content, in words for a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which file."""

    source: TreeKind
    id: str
    path: str

    @classmethod
    def of(cls, arguments: Mapping[str, JsonValue]) -> Wanted:
        """Of arguments that fit the schema."""
        source: TreeKind = "thread" if arguments["source"] == "thread" else "volume"
        return cls(source=source, id=str(arguments["id"]), path=str(arguments["path"]))

    @property
    def rest_request(self) -> str:
        body = json.dumps({"source": self.source, "id": self.id, "path": self.path})
        return f"Use the REST Files API: POST /v1/files/download_url with {body} gives a signed URL for any size."


async def download(wanted: Wanted, setup: CallerSetup, trees: OrganisationTrees, redactor: Redactor) -> JsonObject:
    """One item of content. Raises DownloadError, StorageError, DatabaseError."""
    snapshot, entry = await _found(wanted, setup, trees)
    if entry.size > INLINE_BYTES_MAX:
        raise DownloadError(
            f"The file has {entry.size:,} bytes; at most {INLINE_BYTES_MAX:,} (1 MiB) are returned inline. "
            f"{wanted.rest_request}"
        )
    data = b"".join([part async for part in snapshot.read(entry)])
    claimed = type_of_name(entry.path)
    if claimed in SUFFIXES and (facts := read_facts(data)) is not None:  # a model's API refuses a false type
        return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": facts.mime}
    text = _text(claimed, data)
    if text is None:
        raise DownloadError(f"The file is binary, neither text nor a picture. {wanted.rest_request}")
    if len(data) < LARGE_BYTES:
        return {"type": "text", "text": redactor.text(text, Tally())}
    return {"type": "text", "text": await asyncio.to_thread(redactor.text, text, Tally())}


async def _found(wanted: Wanted, setup: CallerSetup, trees: OrganisationTrees) -> tuple[Snapshot, Entry]:
    configuration = setup.owner.configuration
    is_thread = wanted.source == "thread"
    mounted = configuration.has_storage if is_thread else wanted.id in {one.slug for one in configuration.volumes}
    if not mounted:
        raise DownloadError(_MISSING)
    try:
        path = checked_path(wanted.path)
        owner = setup.owner.thread_owner if is_thread else ""
        snapshot = await trees.snapshot(TreeName(kind=wanted.source, name=wanted.id, owner=owner))
    except (InputError, UnknownTreeError):
        raise DownloadError(_MISSING) from None
    entry = snapshot.tree.find(path)
    if entry is None or entry.kind != "file":
        raise DownloadError(_MISSING)
    return snapshot, entry


def _text(claimed: str, data: bytes) -> str | None:
    """The text that `data` is; None: it is binary. A file named as text may have a few bytes that are no UTF-8."""
    named = claimed.startswith(_TEXTS)
    if b"\0" in data or not (named or claimed in {UNKNOWN_TYPE, *SUFFIXES}):
        return None
    try:
        return data.decode(errors="replace" if named else "strict")
    except UnicodeDecodeError:
        return None
