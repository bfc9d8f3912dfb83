"""Requests and answers about stored files: the shapes of Baponi's Files API, and more. Frozen, bounded, typed."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moonpool.features.storage.contents import CURSOR_CHARS_MAX, PAGE_ENTRIES_MAX
from moonpool.features.storage.model import FILE_BYTES_MAX, THREAD_ID_CHARS_MAX

TREES_PAGE_MAX: Final = 1000
CONTENT_TYPE: Final = "application/octet-stream"
_Source: TypeAlias = Annotated[Literal["thread", "volume"], Meta(description="Where the file lies.")]
_Id: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=THREAD_ID_CHARS_MAX, description="The thread's id or the volume's slug.")
]
_Path: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=4096, description="From the storage root, such as output/chart.png.")
]
_Cursor: TypeAlias = Annotated[str, Meta(max_length=CURSOR_CHARS_MAX)]


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client sends."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the service sends."""


class ListFiles(_Request, frozen=True):
    """A folder: `data/` and `data` are the same, and without it is the root."""

    source: _Source
    id: _Id
    path: Annotated[str, Meta(max_length=4096)] = ""
    recursive: bool = False
    limit: Annotated[int, Meta(ge=1, le=PAGE_ENTRIES_MAX)] = PAGE_ENTRIES_MAX
    cursor: _Cursor | None = None


class UploadUrl(_Request, frozen=True):
    source: _Source
    id: _Id
    path: _Path
    content_length: Annotated[int, Meta(ge=0, le=FILE_BYTES_MAX)]
    content_type: Annotated[str, Meta(max_length=200, pattern=r"^[!-~]+( *; *[!-~]+)*$")] = CONTENT_TYPE


class NamedFile(_Request, frozen=True):
    source: _Source
    id: _Id
    path: _Path


class CreateVolume(_Request, frozen=True):
    slug: Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9][a-z0-9_-]*$")]


class TreesQuery(_Request, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=TREES_PAGE_MAX)] = 100
    cursor: Annotated[str, Meta(max_length=THREAD_ID_CHARS_MAX)] | None = None


class FileBody(_Answer, frozen=True):
    """One file or folder. A link is shown as a file of size 0, with `is_link`; nobody follows it."""

    name: str  # from the folder that was listed
    path: str  # from the storage root
    size: int
    modified: str | None  # RFC 3339
    is_directory: bool
    is_link: bool | UnsetType = UNSET


class FileList(_Answer, frozen=True):
    files: tuple[FileBody, ...]
    next_cursor: str | UnsetType = UNSET  # where there is more


class Header(_Answer, frozen=True):
    name: str
    value: str


class SignedUrl(_Answer, frozen=True):
    """Where to send the file, or have it from, without a credential, until `expires_at` (RFC 3339)."""

    url: str
    method: Literal["GET", "PUT"]
    headers: tuple[Header, ...]
    expires_at: str


class Uploaded(_Answer, frozen=True):
    path: str
    size: int
    sha256: str


class ThreadBody(_Answer, frozen=True):
    id: str
    size: int  # bytes of its files
    entries: int
    created_at: str
    last_used_at: str
    is_running: bool  # an execution has it


class ThreadList(_Answer, frozen=True):
    threads: tuple[ThreadBody, ...]
    next_cursor: str | UnsetType = UNSET


class VolumeBody(_Answer, frozen=True):
    slug: str
    size: int
    entries: int
    created_at: str
    last_used_at: str
    is_writable: bool  # by this credential


class VolumeList(_Answer, frozen=True):
    volumes: tuple[VolumeBody, ...]
    next_cursor: str | UnsetType = UNSET
