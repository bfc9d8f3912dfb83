"""Requests and answers of sessions over HTTP, but for the lines of executions (`lines`). Frozen, bounded, typed.

Requests refuse members that nobody knows: a misspelt limit would otherwise be none. Answers may grow members.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

BODY_BYTES_MAX: Final = 8 * 1024**2
"""JSON of one request; contents of files are no JSON and have the limits of files."""
SESSION_ID_PATTERN: Final = r"^[0-9a-f]{32}$"
SESSION_NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
TEXTS_MAX: Final = 1000
QuestionKindText: TypeAlias = Literal["form", "url", "sampling"]

Id: TypeAlias = Annotated[str, Meta(pattern=SESSION_ID_PATTERN, description="32 hexadecimal digits")]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
_Domain: TypeAlias = Annotated[str, Meta(min_length=1, max_length=300)]
_Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=1e9)]
_Count: TypeAlias = Annotated[int, Meta(gt=0, le=2**53)]
_Memory: TypeAlias = Annotated[int, Meta(ge=32 * 1024**2, le=2**53)]
"""With less no interpreter starts, and the session would fail as if the machine could not isolate code."""
_Note: TypeAlias = Annotated[str, Meta(max_length=1000)]


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client sends."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the service sends."""


# --- requests


class WantedLimits(_Request, frozen=True):
    """Limits of a session, each at most what the service has; left out: as it has."""

    timeout_s: _Seconds | None = None
    memory_bytes: _Memory | None = None
    cpu_s: _Count | None = None
    cpu_cores: Annotated[float, Meta(ge=0.01, le=4096)] | None = None
    disk_bytes: _Count | None = None
    processes: _Count | None = None
    tool_calls: _Count | None = None
    result_bytes: _Count | None = None
    stdout_bytes: _Count | None = None
    stderr_bytes: _Count | None = None


class Credential(_Request, frozen=True):
    """A header that the service adds to the code's requests to a domain. It never reaches the code."""

    header: Annotated[str, Meta(min_length=1, max_length=100)]
    value: Annotated[str, Meta(min_length=1, max_length=8192)]


class WantedNetwork(_Request, frozen=True):
    """Domains that the code may reach, within what the service allows."""

    allow: Annotated[tuple[_Domain, ...], Meta(max_length=TEXTS_MAX)] = ()
    credentials: Annotated[dict[str, Credential], Meta(max_length=100)] = {}


class TerminalOrder(_Request, frozen=True):
    """What a command of the service's own user says about a session, which keeps it.

    SECURITY: taken from callers of the socket only. It names folders and programs of this machine, which such a caller
    can use anyway.
    """

    environ: dict[str, str]
    """The command's variables, for settings and `${NAME}` in its configuration."""
    here: str
    """The command's folder."""
    config: str | None = None
    """The file of its servers; null: none."""
    config_digest: str = ""
    policy_digest: str = ""
    workspace: str | None = None


class CreateSession(_Request, frozen=True):
    """A session to open. Its servers and rules are the organisation's."""

    name: Annotated[str, Meta(pattern=SESSION_NAME_PATTERN)] | None = None
    """Of one caller's sessions: a second one of this name is not opened, but found."""
    terminal: TerminalOrder | None = None
    environment: _Name | None = None
    limits: WantedLimits = WantedLimits()
    checkpoints: bool = False
    network: WantedNetwork | None = None
    packages: Annotated[tuple[_Name, ...], Meta(max_length=TEXTS_MAX)] | None = None
    """Names that may be installed, `any` for all that the service allows; null: as the service says."""


class RunCode(_Request, frozen=True):
    """Code to run. `id`, chosen by the client, names the execution: sent again, it is not run again."""

    code: str
    id: Id | None = None
    timeout: float | None = None
    language: Annotated[str, Meta(max_length=40)] = "python"
    questions: Annotated[tuple[QuestionKindText, ...], Meta(max_length=3)] = ()
    name: Annotated[str, Meta(max_length=4096)] = "<code>"
    """What tracebacks call the code."""
    attended: bool = False
    """The code ends with the connection that sent it."""


class Interrupt(_Request, frozen=True):
    """`executions`: only if one of these runs; left out: whatever runs.

    `waiting`: also if it waits for its turn, which it then never gets; `at_once`: by force.
    """

    executions: Annotated[tuple[Id, ...], Meta(max_length=TEXTS_MAX)] | None = None
    waiting: bool = False
    at_once: bool = False


class InstallPackages(_Request, frozen=True):
    packages: Annotated[tuple[Annotated[str, Meta(max_length=1000)], ...], Meta(min_length=1, max_length=100)]


class TakeCheckpoint(_Request, frozen=True):
    name: str


class CheckpointRef(msgspec.Struct, frozen=True, kw_only=True):
    """A state to which a session can go back."""

    number: int
    name: str
    execution: int
    sandbox_id: Annotated[str, Meta(max_length=200)]


class Undo(_Request, frozen=True):
    """Go back before the last `n` executions, or `to` a checkpoint."""

    n: Annotated[int, Meta(ge=-(2**31), le=2**31)] = 1
    to: CheckpointRef | None = None


class ChangeNetwork(_Request, frozen=True):
    """Domains to allow, with a credential for them, and then domains to deny."""

    allow: Annotated[tuple[_Domain, ...], Meta(max_length=TEXTS_MAX)] = ()
    credential: Credential | None = None
    deny: Annotated[tuple[_Domain, ...], Meta(max_length=TEXTS_MAX)] = ()


class SearchTools(_Request, frozen=True):
    queries: Annotated[tuple[Annotated[str, Meta(max_length=10_000)], ...], Meta(min_length=1, max_length=100)]
    server: Annotated[str, Meta(max_length=200)] | None = None
    limit: int = 10


class NoBody(_Request, frozen=True):
    """Nothing."""


class AnswerApproval(_Request, frozen=True):
    """An answer to a call that waits, by somebody else than its caller. A caller may refuse its own."""

    approve: bool
    note: _Note = ""
    by: Annotated[str, Meta(max_length=200)] = ""
    """Who is said to have answered; recorded beside the credential that did."""
    keep_for: Annotated[str, Meta(max_length=40)] | None = None
    where: Annotated[tuple[Annotated[str, Meta(max_length=1000)], ...], Meta(max_length=100)] = ()
    any_arguments: bool = False


class AnswerQuestion(_Request, frozen=True):
    """An answer to a server's question. `content`: of a form that is accepted, or what a model said (`sampled`)."""

    how: Literal["accept", "decline", "cancel", "sampled"]
    content: dict[str, Any] | None = None
    by: Annotated[str, Meta(max_length=200)] = ""


class AddServer(_Request, frozen=True):
    """A server for all of an organisation. Calls of its tools are decided by the operator's policy."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    url: Annotated[str, Meta(min_length=1, max_length=2048, description="https, of the public internet")]
    headers: Annotated[
        dict[Annotated[str, Meta(max_length=100)], Annotated[str, Meta(max_length=8192)]], Meta(max_length=16)
    ] = {}
    expose: Literal["code", "direct", "both"] = "code"


class ConsentTo(_Request, frozen=True):
    """That this client uses this server's login."""

    client: Annotated[str, Meta(min_length=1, max_length=255)]
    server: Annotated[str, Meta(min_length=1, max_length=255)]


# --- answers


class ErrorBody(_Answer, frozen=True):
    """What was wrong: see the reference of errors. `code` never changes its meaning."""

    code: str
    message: str
    fault: Literal["caller", "guest", "upstream", "host"]
    retryable: bool = False
    data: dict[str, Any] | None = None
    """More of it for programs: of `limit_exceeded` which `bound`, `of` whom, its `limit`, and `retry_after_s`."""


class ErrorAnswer(_Answer, frozen=True):
    """The form of every error but `Unauthorized`."""

    error: ErrorBody


class Unauthorized(_Answer, frozen=True):
    """Of a request without a valid credential, also elsewhere than at sessions; its challenge is in the headers."""

    error: Literal["unauthorized"]
    message: Literal["Invalid or revoked API key."]


class NetworkState(_Answer, frozen=True):
    """What the code may reach now, and why the newest connections were refused."""

    allowed: tuple[str, ...]
    refused: tuple[str, ...]


class SessionState(_Answer, frozen=True):
    """What changes of a session."""

    checkpoints: tuple[CheckpointRef, ...] | None = None
    network: NetworkState | None = None


class UsageState(_Answer, frozen=True):
    """What a session used so far, over all of its executions."""

    executions: int = 0
    tool_calls: int = 0
    duration_ms: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0


class KeptOrder(_Answer, frozen=True):
    """What a session of a terminal was opened with."""

    backend: str
    config: str  # the file of its servers; empty: none
    config_digest: str
    policy_digest: str  # of its policy files; empty: none
    network: tuple[str, ...]
    workspace: str | None


class SessionAnswer(_Answer, frozen=True):
    """A session that is open."""

    id: str
    environment: str
    expires_in_s: float
    """It is closed then at the latest."""
    idle_s: float
    """It is closed earlier when nobody used it for so long."""
    state: SessionState
    usage: UsageState
    name: str = ""
    age_s: float = 0.0
    unused_s: float = 0.0
    """For how long nobody has used it; 0 while somebody does."""
    terminal: KeptOrder | None = None
    archive_skipped: int = 0
    """Entries that its newest archive left out."""


class SessionList(_Answer, frozen=True):
    sessions: tuple[SessionAnswer, ...]


class Package(_Answer, frozen=True):
    name: str
    version: str
    sha256: str


class Installed(_Answer, frozen=True):
    """What an installation came to."""

    new: tuple[Package, ...]
    packages: tuple[Package, ...]
    size: int
    cached: bool


class CheckpointAnswer(_Answer, frozen=True):
    checkpoint: CheckpointRef
    state: SessionState


class UndoneCallRef(_Answer, frozen=True):
    """A call that stays done."""

    tool: str
    run_id: str
    may_have_changed: bool


class UndoneBody(_Answer, frozen=True):
    """What going back came to."""

    checkpoint: CheckpointRef
    run_ids: tuple[str, ...]
    calls: tuple[UndoneCallRef, ...]
    lost_files: str = ""


class UndoAnswer(_Answer, frozen=True):
    undone: UndoneBody
    state: SessionState


class FileEntryBody(_Answer, frozen=True):
    """One entry of a listing. The code chose its name."""

    path: str
    kind: Literal["file", "folder", "link", "other"]
    size: int = 0
    mode: int = 0
    modified_s: int = 0
    escaped: bool = False


class FileList(_Answer, frozen=True):
    entries: tuple[FileEntryBody, ...]
    truncated: bool = False


class FileWritten(_Answer, frozen=True):
    """The digest is the service's, over the bytes that arrived."""

    path: str
    size: int
    sha256: str
    entries: int = 1


class ToolBody(_Answer, frozen=True):
    """One tool. Name and description are its server's own words."""

    server: str
    name: str
    path: str
    description: str = ""


class ToolList(_Answer, frozen=True):
    tools: tuple[ToolBody, ...]


class Definition(_Answer, frozen=True):
    """A string for `stub` and `typescript`, an object for `json`."""

    definition: str | dict[str, Any]


class OwnServerBody(_Answer, frozen=True):
    """A server that an organisation added. Values of its headers are shown nowhere."""

    name: str
    url: str
    headers: tuple[str, ...]
    expose: str
    added_by: str
    added_at: str
    is_listed: bool


class OwnServerList(_Answer, frozen=True):
    servers: tuple[OwnServerBody, ...]


class ConsentBody(_Answer, frozen=True):
    """That a client may use a server's login when it calls for you."""

    client: str
    server: str
    given_at: str


class ConsentList(_Answer, frozen=True):
    consents: tuple[ConsentBody, ...]


class ApprovalBody(_Answer, frozen=True):
    """A call that waits for an answer. Texts are redacted and bounded; code, servers and models had a hand in them."""

    request_id: str
    run_id: str
    server: str
    tool: str
    arguments: dict[str, Any] | None
    shown: str
    reason: str
    human_only: bool = False
    listing: tuple[str, ...] = ()
    expires_s: float = 0.0


class OpenApproval(_Answer, frozen=True):
    """An open question, and who runs the code that waits."""

    principal: str
    session_id: str
    request: ApprovalBody


class ApprovalList(_Answer, frozen=True):
    approvals: tuple[OpenApproval, ...]
