"""Typed messages of the channel, host side. The table of fields stands in `moonpool_wire.messages`.

SECURITY: heads from a guest are decoded into frozen structs with bounds on every field, or the sandbox is discarded.
Unknown fields are ignored, so that an older host understands a newer guest's additions.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from moonpool_wire.jsonbounds import exceeded_bound
from moonpool_wire.limits import BUNDLE_BYTES_MAX, DIVERGENCE_CHARS_MAX, FILES_MADE_BYTES_MAX, NONDETERMINISM_BYTES_MAX

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
ShortText = Annotated[str, Meta(max_length=256)]
Text = Annotated[str, Meta(max_length=8192)]
Digest = Annotated[str, Meta(max_length=64, pattern="^[0-9a-f]*$")]
Count = Annotated[int, Meta(ge=0, le=2**53)]
RequestId = Annotated[int, Meta(ge=1, le=2**53)]


class Ready(msgspec.Struct, frozen=True, tag_field="t", tag="ready"):
    """The kernel waits for code."""

    protocol: int
    pid: int
    language: ShortText
    version: ShortText


class Failed(msgspec.Struct, frozen=True, tag_field="t", tag="failed"):
    """A confinement step failed; the child has ended or is about to."""

    step: ShortText
    message: Text


class ToolCall(msgspec.Struct, frozen=True, tag_field="t", tag="tool_call"):
    """Code calls a tool. Body: the arguments object."""

    id: RequestId
    server: Name
    tool: Name
    line: Annotated[int, Meta(ge=0, le=2**31)] = 0  # of the code, for who approves the call


class CallRefused(msgspec.Struct, frozen=True, tag_field="t", tag="call_refused"):
    """Code called a tool with arguments that cannot be sent; it has got its error already."""

    server: Name
    tool: Name
    message: Text


class InstallPackages(msgspec.Struct, frozen=True, tag_field="t", tag="install_packages"):
    """Code asks for packages to be installed. Body: the requirements as text. The answer is a `ToolResult`."""

    id: RequestId


class Display(msgspec.Struct, frozen=True, tag_field="t", tag="display"):
    """A picture that code showed. Body: its bytes. `name` is its file in `/workspace`, empty where there is none."""

    mime: ShortText
    name: ShortText = ""


class Bundle(msgspec.Struct, frozen=True, tag_field="t", tag="bundle"):
    """A value that code showed, or its last expression's (`result`). Body: texts by MIME type, JSON."""

    result: bool = False


class Made(msgspec.Struct, frozen=True, tag_field="t", tag="made"):
    """Files of `/workspace` that the code of `run` made, `count` in all. Body: path and size of the first, JSON."""

    run: ShortText
    count: Count


class Output(msgspec.Struct, frozen=True, tag_field="t", tag="output"):
    """Bytes written to a stream, from a backend without pipes."""

    stream: Literal[1, 2]


class GuestError(msgspec.Struct, frozen=True):
    """How the code failed. `of_result`: it did not, but what it handed over cannot be."""

    type: ShortText
    message: Text
    retryable: bool = False
    of_result: bool = False


class Done(msgspec.Struct, frozen=True, tag_field="t", tag="done"):
    """The execution `run` has ended. Body: the result when `has_result`, the last expression's value when `has_last`.

    `note`: why there is no such value although the code ends in an expression.
    """

    run: ShortText
    status: Literal["ok", "error", "exit", "interrupted"]
    exit_code: Annotated[int, Meta(ge=0, le=255)] = 0
    error: GuestError | None = None
    has_result: bool = False
    has_last: bool = False
    note: Annotated[str, Meta(max_length=1024)] = ""


class RecordedNondeterminism(msgspec.Struct, frozen=True, tag_field="t", tag="nondeterminism_log"):
    """What `run` read of clocks and randomness, or where it diverged from the replayed log. Body: the log, opaque."""

    run: ShortText
    divergence: Annotated[str, Meta(max_length=DIVERGENCE_CHARS_MAX)] = ""


class FileOpened(msgspec.Struct, frozen=True, tag_field="t", tag="file_opened"):
    """The file or archive that was asked for can be read. `size` is what it was then; an archive's is not known (0)."""

    order: RequestId
    size: Count = 0


class FileTaken(msgspec.Struct, frozen=True, tag_field="t", tag="file_taken"):
    """One piece is used; another may come."""

    order: RequestId


class FileData(msgspec.Struct, frozen=True, tag_field="t", tag="file_data"):
    """A piece. Body: its bytes."""

    order: RequestId


class FileEntries(msgspec.Struct, frozen=True, tag_field="t", tag="file_entries"):
    """A listing. Body: its entries; `truncated` when there are more."""

    order: RequestId
    truncated: bool = False


class FileDone(msgspec.Struct, frozen=True, tag_field="t", tag="file_done"):
    """The order is carried out. SECURITY: the host compares digest and size with what it sent or got."""

    order: RequestId
    size: Count = 0
    sha256: Digest = ""
    entries: Count = 0
    skipped: Count = 0


class FileFailed(msgspec.Struct, frozen=True, tag_field="t", tag="file_failed"):
    """The order is not carried out and left nothing behind."""

    order: RequestId
    code: ShortText
    message: Text = ""


class CheckpointDone(msgspec.Struct, frozen=True, tag_field="t", tag="checkpoint_done"):
    """The order is carried out, or `refused` says why not; `full`: for want of room that earlier ones take.

    `lost`: files that could not be put back.
    """

    order: RequestId
    refused: Text = ""
    full: bool = False
    lost: Text = ""


class KernelEnded(msgspec.Struct, frozen=True, tag_field="t", tag="kernel_ended"):
    """The process that ran code has ended by itself, not its sandbox. A `restore` is awaited. First behind a mark."""

    status: Annotated[int, Meta(ge=0, le=255)]


FileAnswer = FileOpened | FileTaken | FileData | FileEntries | FileDone | FileFailed
GuestMessage = (
    Ready
    | Failed
    | ToolCall
    | CallRefused
    | InstallPackages
    | Display
    | Bundle
    | Output
    | Done
    | RecordedNondeterminism
    | Made
    | CheckpointDone
    | KernelEnded
    | FileAnswer
)


class Execute(msgspec.Struct, frozen=True, tag_field="t", tag="execute"):
    """Run the code in the body.

    `final`: nothing will run in this kernel afterwards. `rehearse`: leave no trace. `record`: send a nondeterminism
    log. `ipython`: Python code is read as IPython reads it.
    """

    run: str
    name: str
    manifest: str
    final: bool
    result_bytes_max: int
    language: str = "python"
    rehearse: bool = False
    record: bool = False
    ipython: bool = False


class Variables(msgspec.Struct, frozen=True, tag_field="t", tag="variables"):
    """Environment variables for the execution `run`, which comes next, in the body. `home`: where it lives, or ""."""

    run: str
    home: str = ""


class NondeterminismLog(msgspec.Struct, frozen=True, tag_field="t", tag="nondeterminism_log"):
    """Clock and randomness for the execution `run`, which comes next. Body: what was recorded, opaque."""

    run: str


class Interrupt(msgspec.Struct, frozen=True, tag_field="t", tag="interrupt"):
    """Interrupt `run`; for backends that cannot signal."""

    run: str


class ToolResult(msgspec.Struct, frozen=True, tag_field="t", tag="tool_result"):
    """The answer to a tool call. Body: the reply object."""

    id: int


class Close(msgspec.Struct, frozen=True, tag_field="t", tag="close"):
    """Nothing more will come; end."""


class TakeCheckpoint(msgspec.Struct, frozen=True, tag_field="t", tag="checkpoint"):
    """Keep the state as it is as checkpoint `number`, and forget those in `drop`. The first comes before any code.

    `token` is that of `moonpool_wire.frames.restart_mark`.
    """

    order: int
    number: int
    drop: tuple[int, ...] = ()
    token: str = ""


class RestoreCheckpoint(msgspec.Struct, frozen=True, tag_field="t", tag="restore"):
    """Put everything back to what it was at checkpoint `number`, which stays; forget those in `drop`."""

    order: int
    number: int
    drop: tuple[int, ...] = ()


class FilePut(msgspec.Struct, frozen=True, tag_field="t", tag="file_put"):
    """Make one file of the pieces that follow."""

    order: int
    path: str
    mode: int
    replace: bool
    bytes_max: int


class FileUnpack(msgspec.Struct, frozen=True, tag_field="t", tag="file_unpack"):
    """Unpack the archive that follows in pieces, whole or not at all."""

    order: int
    path: str
    form: Literal["tar", "zip"]
    replace: bool
    bytes_max: int
    expanded_bytes_max: int


class FileGet(msgspec.Struct, frozen=True, tag_field="t", tag="file_get"):
    """Send one file."""

    order: int
    path: str
    bytes_max: int


class FileArchive(msgspec.Struct, frozen=True, tag_field="t", tag="file_archive"):
    """Send a folder, or a file, as a tar stream."""

    order: int
    path: str
    bytes_max: int


class FileList(msgspec.Struct, frozen=True, tag_field="t", tag="file_list"):
    """Say what is in a folder."""

    order: int
    path: str
    recursive: bool


class FileDelete(msgspec.Struct, frozen=True, tag_field="t", tag="file_delete"):
    """Remove a file, or a folder with all that is in it when `recursive`."""

    order: int
    path: str
    recursive: bool


class FileMkdir(msgspec.Struct, frozen=True, tag_field="t", tag="file_mkdir"):
    """Make a folder and those above it."""

    order: int
    path: str


class TreeFill(msgspec.Struct, frozen=True, tag_field="t", tag="tree_fill"):
    """Make the folder `path` hold the stored tree that follows in pieces, and remember it."""

    order: int
    path: str
    bytes_max: int


class TreeChanges(msgspec.Struct, frozen=True, tag_field="t", tag="tree_changes"):
    """End all other processes, and send what differs from what `TreeFill` brought to `path`."""

    order: int
    path: str
    bytes_max: int


class FilePiece(msgspec.Struct, frozen=True, tag_field="t", tag="file_piece"):
    """The next bytes of an upload, in the body."""

    order: int


class FileCommit(msgspec.Struct, frozen=True, tag_field="t", tag="file_commit"):
    """All pieces were sent; put the file in its place if they have this digest."""

    order: int
    sha256: str


class FileNext(msgspec.Struct, frozen=True, tag_field="t", tag="file_next"):
    """So many more pieces may be sent."""

    order: int
    pieces: int


class FileDrop(msgspec.Struct, frozen=True, tag_field="t", tag="file_drop"):
    """Give the order up."""

    order: int


FileOpening = FilePut | FileUnpack | FileGet | FileArchive | FileList | FileDelete | FileMkdir | TreeFill | TreeChanges
FileOrder = FileOpening | FilePiece | FileCommit | FileNext | FileDrop
CheckpointOrder = TakeCheckpoint | RestoreCheckpoint
HostMessage = Execute | Variables | NondeterminismLog | Interrupt | ToolResult | Close | CheckpointOrder | FileOrder

_decode_guest = msgspec.json.Decoder(GuestMessage).decode
_decode_host = msgspec.json.Decoder(HostMessage).decode
encode = msgspec.json.Encoder().encode


class InvalidMessage(Exception):  # noqa: N818  a verdict on the peer, not an error of ours
    """The peer sent something that is no message of the protocol."""


def decode_guest(head: bytes) -> GuestMessage:
    """Return the typed head. Raises InvalidMessage."""
    if (bound := exceeded_bound(head, depth_max=8, containers_max=64)) is not None:
        raise InvalidMessage(f"a head with {bound}")
    try:
        return _decode_guest(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage(str(error)[:200]) from None


def check_body(message: GuestMessage, body: bytes) -> None:
    """Bound what the wire alone would let through. Raises InvalidMessage."""
    if isinstance(message, RecordedNondeterminism) and len(body) > NONDETERMINISM_BYTES_MAX:
        raise InvalidMessage(f"a nondeterminism log of {len(body):,} bytes")
    if isinstance(message, Made) and len(body) > FILES_MADE_BYTES_MAX:
        raise InvalidMessage(f"a list of files of {len(body):,} bytes")
    if isinstance(message, Bundle) and len(body) > BUNDLE_BYTES_MAX:
        raise InvalidMessage(f"a rich display of {len(body):,} bytes")


def decode_host(head: bytes) -> HostMessage:
    """Return the typed head of a message of ours that came back (a refused blob)."""
    return _decode_host(head)


__all__ = [
    "Bundle",
    "CallRefused",
    "CheckpointDone",
    "CheckpointOrder",
    "Close",
    "Display",
    "Done",
    "Execute",
    "Failed",
    "FileAnswer",
    "FileArchive",
    "FileCommit",
    "FileData",
    "FileDelete",
    "FileDone",
    "FileDrop",
    "FileEntries",
    "FileFailed",
    "FileGet",
    "FileList",
    "FileMkdir",
    "FileNext",
    "FileOpened",
    "FileOpening",
    "FileOrder",
    "FilePiece",
    "FilePut",
    "FileTaken",
    "FileUnpack",
    "GuestError",
    "GuestMessage",
    "HostMessage",
    "InstallPackages",
    "Interrupt",
    "InvalidMessage",
    "KernelEnded",
    "Made",
    "NondeterminismLog",
    "Output",
    "Ready",
    "RecordedNondeterminism",
    "RestoreCheckpoint",
    "TakeCheckpoint",
    "ToolCall",
    "ToolResult",
    "TreeChanges",
    "TreeFill",
    "Variables",
    "check_body",
    "decode_guest",
    "decode_host",
    "encode",
]
