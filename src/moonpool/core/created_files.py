"""What code leaves besides its result: files, by name, and pictures, which a model sees (X-07)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject

UNKNOWN_TYPE: Final = "application/octet-stream"
_SUFFIXES: Final = {
    "image/png": "png",
    "image/jpeg": "jpg jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "text/plain": "txt log sql toml ini",
    "text/markdown": "md",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/html": "html htm",
    "text/css": "css",
    "text/javascript": "js mjs cjs",
    "text/x-python": "py",
    "text/x-shellscript": "sh",
    "application/json": "json",
    "application/jsonl": "jsonl ndjson",
    "application/yaml": "yaml yml",
    "application/xml": "xml",
    "application/pdf": "pdf",
    "application/zip": "zip",
    "application/gzip": "gz",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "video/mp4": "mp4",
}
_TYPES: Final = {suffix: mime for mime, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}


def type_of_name(name: str) -> str:
    """The MIME type that the name of a file claims; UNKNOWN_TYPE where it claims none of a short list."""
    return _TYPES.get(name.rpartition(".")[2].lower(), UNKNOWN_TYPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFile:
    """A file that code made in `/workspace`."""

    name: str  # its path below `/workspace`
    size: int  # bytes
    path: str | None  # on the host where its sandbox is gone, in the sandbox where it stays; None: it was not kept

    @property
    def mime(self) -> str:
        return type_of_name(self.name)

    def to_json(self) -> JsonObject:
        return {"name": self.name, "mime": self.mime, "bytes": self.size, "path": self.path}


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFiles:
    """Files that one execution made. `more` are not listed; `note` says why some were not kept."""

    files: tuple[MadeFile, ...] = ()
    more: int = 0
    note: str = ""

    def to_json(self) -> JsonObject:
        """Members of `result`; none where code made no file."""
        told: JsonObject = {"files": [file.to_json() for file in self.files]} if self.files else {}
        if self.more:
            told["more_files"] = self.more
        if self.note:
            told["files_note"] = self.note
        return told


NO_FILES: Final = MadeFiles()


@dataclass(frozen=True, slots=True, kw_only=True)
class RichDisplay:
    """A value that code showed, in each form that it has. SECURITY: what code wrote, markup and scripts too."""

    forms: Mapping[str, str]  # by MIME type
    is_result: bool = False  # of the code's last expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture that code showed. SECURITY: its form was read from its first bytes, it was not decoded."""

    data: bytes
    mime: str  # image/png, image/jpeg, image/gif or image/webp
    name: str = ""  # of its file in `/workspace`
