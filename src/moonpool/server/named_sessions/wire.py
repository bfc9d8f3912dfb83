"""Messages between a client and the process that holds a session: one JSON object per line, both ways.

A client's first line is its request: `Run`, `Status`, `Close` or a file operation. After `Run` it may send answers and
interrupts; the host sends output, questions and remarks, then the envelope's line or a refusal. Files are sent in
pieces after their request or as its answer, at the rate of the socket; a receipt or a refusal ends the transfer.

Both ends belong to one user (peer credentials are checked). Lines are bounded and typed nevertheless: an invalid line
ends the connection. Neighbours: `host`, `client`, `sockets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.languages import PYTHON
from moonpool.engine.files.service import FileEntry  # noqa: TC001  msgspec reads the annotations
from moonpool.features.approvals.model import ApprovalAnswer, ApprovalRequest  # noqa: TC001  msgspec reads the annotations

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
OUTPUT_PIECE_BYTES_MAX: Final = 256 * 1024


class SessionError(MoonpoolError):
    """A session cannot do what was requested. The message says what to do instead.

    A refusal by the session's process keeps its error code.
    """

    code = "session_unusable"
    fault = Fault.CALLER

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code or type(self).code


class SessionLostError(MoonpoolError):
    """The session's process ended during the request. Its variables and files are gone."""

    code = "session_lost"
    fault = Fault.HOST
    retryable = True


class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Run(_Message, frozen=True, tag="run"):
    """Run code. A member that is None keeps what the session was started with."""

    code: bytes
    name: str
    timeout_s: float | None = None
    language: str = PYTHON
    typescript: bool = False
    environment: str | None = None
    backend: str | None = None
    config_digest: str | None = None
    policy_digest: str | None = None
    network: tuple[str, ...] | None = None  # domains, as they were written
    workspace: str | None = None  # a folder of the host
    fills_forms: bool = False  # a person at a terminal can fill in servers' forms


class Answer(_Message, frozen=True, tag="answer"):
    """A person's answer to one question."""

    answer: ApprovalAnswer


class FormAnswer(_Message, frozen=True, tag="form_answer"):
    """A person's answer to a server's question: the protocol's result; empty if nobody could be asked."""

    request_id: str
    result: dict[str, Any]
    answerer: str


class Interrupt(_Message, frozen=True, tag="interrupt"):
    """End the running code, by force when `at_once`."""

    at_once: bool = False


class Status(_Message, frozen=True, tag="status"):
    """Ask for the session's `State`."""


class Close(_Message, frozen=True, tag="close"):
    """End the session."""


class PutFile(_Message, frozen=True, tag="put_file"):
    """Write a file, whose pieces follow."""

    path: str
    mode: int
    replace: bool


class PutArchive(_Message, frozen=True, tag="put_archive"):
    """Unpack an archive, which follows in pieces."""

    path: str
    form: Literal["tar", "zip"]
    replace: bool


class GetFile(_Message, frozen=True, tag="get_file"):
    """Send a file."""

    path: str


class GetArchive(_Message, frozen=True, tag="get_archive"):
    """Send a folder as a tar stream."""

    path: str


class ListFiles(_Message, frozen=True, tag="list_files"):
    """List a folder."""

    path: str
    recursive: bool


class Piece(_Message, frozen=True, tag="piece"):
    """The next bytes of a file, in either direction."""

    data: bytes


class End(_Message, frozen=True, tag="end"):
    """The end of the pieces."""


class Accepted(_Message, frozen=True, tag="accepted"):
    """The request was accepted: it will run, at most once."""


class Output(_Message, frozen=True, tag="output"):
    """A redacted piece of the program's output."""

    stream: int
    data: bytes


class Question(_Message, frozen=True, tag="question"):
    """Policy decided to ask."""

    request: ApprovalRequest


class Form(_Message, frozen=True, tag="form"):
    """A server asks a person: the params of its `elicitation/create`, as shown."""

    request_id: str
    params: dict[str, Any]


class Withdrawn(_Message, frozen=True, tag="withdrawn"):
    """A question no longer needs an answer."""

    request_id: str


class Remark(_Message, frozen=True, tag="remark"):
    """A line for the person at the terminal."""

    text: str


class Finished(_Message, frozen=True, tag="finished"):
    """The envelope's line, and whether the code succeeded."""

    line: bytes
    ok: bool


class Refused(_Message, frozen=True, tag="refused"):
    """The request was refused: the error's sentence and code. No code was run."""

    message: str
    code: str = SessionError.code


class State(_Message, frozen=True, tag="state"):
    """The session's state, as `moonpool session list` shows it."""

    name: str
    pid: int
    environment: str
    backend: str
    config: str
    age_s: float
    idle_s: float
    executions: int
    busy: bool


class Closing(_Message, frozen=True, tag="closing"):
    """The session is ending."""


class Receipt(_Message, frozen=True, tag="receipt"):
    """A transfer is complete. The members of `FileReceipt`."""

    path: str
    size: int
    sha256: str
    entries: int
    skipped: int


class Listing(_Message, frozen=True, tag="listing"):
    """The contents of a folder. The members of `FileListing`."""

    entries: tuple[FileEntry, ...]
    truncated: bool


FileRequest: TypeAlias = PutFile | PutArchive | GetFile | GetArchive | ListFiles
ClientMessage: TypeAlias = Run | Answer | FormAnswer | Interrupt | Status | Close | FileRequest | Piece | End
HostMessage: TypeAlias = (
    Accepted
    | Output
    | Question
    | Form
    | Withdrawn
    | Remark
    | Finished
    | Refused
    | State
    | Closing
    | Piece
    | Receipt
    | Listing
)

_encoder = msgspec.json.Encoder()
_client_decoder = msgspec.json.Decoder(ClientMessage)
_host_decoder = msgspec.json.Decoder(HostMessage)


def encode(message: ClientMessage | HostMessage) -> bytes:
    """One line."""
    return _encoder.encode(message) + b"\n"


async def receive_from_client(reader: asyncio.StreamReader) -> ClientMessage | None:
    """The next message; None if the client is gone or sent an invalid line."""
    return _decoded(_client_decoder, await _line(reader))


async def receive_from_host(reader: asyncio.StreamReader) -> HostMessage | None:
    """The next message; None if the host is gone or sent an invalid line."""
    return _decoded(_host_decoder, await _line(reader))


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except (ValueError, OSError):  # too long, or reset
        return b""


def _decoded(decoder: msgspec.json.Decoder[_T], line: bytes) -> _T | None:
    try:
        return decoder.decode(line) if line.endswith(b"\n") else None
    except msgspec.DecodeError:
        return None
