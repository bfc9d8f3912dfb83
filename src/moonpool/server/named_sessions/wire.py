"""Messages between a client and the process that holds a session: one JSON object per line, both ways.

The first line of a client says what it wants: `Run`, `Status`, `Close` or something about files. After `Run` it may
send answers and interrupts; the host sends output, questions and remarks, and last the envelope's line or a refusal.
Files follow their request, or answer it, in pieces; the socket keeps the pace. Last comes a receipt or a refusal.

Both ends belong to one user (peer credentials are checked). Lines are bounded and typed all the same: a wrong line ends
the connection. Neighbours: `host`, `client`, `sockets`.
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
    """A session cannot do what was asked. The message says what to do instead.

    What the session's process refused keeps the code that it has there.
    """

    code = "session_unusable"
    fault = Fault.CALLER

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code or type(self).code


class SessionLostError(MoonpoolError):
    """The process that held the session ended under the request. Its variables and files are gone."""

    code = "session_lost"
    fault = Fault.HOST
    retryable = True


class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Run(_Message, frozen=True, tag="run"):
    """Run code. What is None is whatever the session was started with."""

    code: bytes
    name: str
    timeout_s: float | None = None
    language: str = PYTHON
    typescript: bool = False
    environment: str | None = None
    backend: str | None = None
    config_digest: str | None = None
    policy_digest: str | None = None
    fills_forms: bool = False  # somebody at a terminal can be asked what servers want to know


class Answer(_Message, frozen=True, tag="answer"):
    """A person's answer to one question."""

    answer: ApprovalAnswer


class FormAnswer(_Message, frozen=True, tag="form_answer"):
    """What a person said to a server's question: the result of the protocol; empty when nobody could be asked."""

    request_id: str
    result: dict[str, Any]
    answerer: str


class Interrupt(_Message, frozen=True, tag="interrupt"):
    """End the running code, by force when `at_once`."""

    at_once: bool = False


class Status(_Message, frozen=True, tag="status"):
    """Say who you are."""


class Close(_Message, frozen=True, tag="close"):
    """End the session."""


class PutFile(_Message, frozen=True, tag="put_file"):
    """Write a file of the pieces that follow."""

    path: str
    mode: int
    replace: bool


class PutArchive(_Message, frozen=True, tag="put_archive"):
    """Unpack the archive that follows in pieces."""

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
    """Say what is in a folder."""

    path: str
    recursive: bool


class Piece(_Message, frozen=True, tag="piece"):
    """The next bytes of a file, either way."""

    data: bytes


class End(_Message, frozen=True, tag="end"):
    """All pieces were sent."""


class Accepted(_Message, frozen=True, tag="accepted"):
    """The request is taken: it will run, at most once."""


class Output(_Message, frozen=True, tag="output"):
    """A redacted piece of what the program printed."""

    stream: int
    data: bytes


class Question(_Message, frozen=True, tag="question"):
    """Policy says ask."""

    request: ApprovalRequest


class Form(_Message, frozen=True, tag="form"):
    """A server asks a person: the params of its `elicitation/create`, as they are shown."""

    request_id: str
    params: dict[str, Any]


class Withdrawn(_Message, frozen=True, tag="withdrawn"):
    """The question no longer needs an answer."""

    request_id: str


class Remark(_Message, frozen=True, tag="remark"):
    """A line for the person who watches."""

    text: str


class Finished(_Message, frozen=True, tag="finished"):
    """The envelope's line, and whether the code succeeded."""

    line: bytes
    ok: bool


class Refused(_Message, frozen=True, tag="refused"):
    """The request was not carried out, and why: sentence and code of the error. No code was run."""

    message: str
    code: str = SessionError.code


class State(_Message, frozen=True, tag="state"):
    """What `moonpool session list` shows."""

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
    """The session ends now."""


class Receipt(_Message, frozen=True, tag="receipt"):
    """A transfer is complete. The members of `FileReceipt`."""

    path: str
    size: int
    sha256: str
    entries: int
    skipped: int


class Listing(_Message, frozen=True, tag="listing"):
    """What is in a folder. The members of `FileListing`."""

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
    """The next message; None when the client is gone or sent something that is none."""
    return _decoded(_client_decoder, await _line(reader))


async def receive_from_host(reader: asyncio.StreamReader) -> HostMessage | None:
    """The next message; None when the host is gone or sent something that is none."""
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
