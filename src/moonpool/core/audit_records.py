"""Records of the audit trail, a frozen type per kind. Pure.

Every execution leaves a start and an end record, every tool call one outcome record, and every call that may change
something an intent record before it is sent (H-058). Of many refused calls the first leave one each, the others one
that counts them. Every change of the library leaves both; every transfer of a file, every change
of stored files by no execution, every undo and fork of a session,
every connection to the outside (of many refused ones, their number), every change of a tool, every
question of a server that may be passed on, every approval grant, every change of a key or an organisation and every
connection of a model leaves one. Records
hold digests, sizes and names, never values: no argument, no result, no secret; what a caller attaches to an execution
is there, redacted. How they are kept and chained:
`moonpool.core.audit`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


def time_stamp(moment: datetime) -> str:
    """`moment`, which knows its zone, as every record has it: RFC 3339 in UTC with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionStartRecord:
    """An execution begins. With the calls' records it is what replay starts from (H-065)."""

    kind: ClassVar[str] = "execution_start"
    run_id: str
    trace_id: str
    at: str  # see `time_stamp`
    principal: str
    session_id: str
    language: str
    code_digest: str
    environment_id: str
    manifest_digest: str
    policy_digest: str = ""  # the version of the policy in force; rows of before have none
    tree_digest: str = ""  # of the wrappers that the code sees
    backend: str = ""
    version: str = ""  # Moonpool's
    replay_of: str = ""  # the execution that this one replays: its tool calls are answered from the recording
    dry_run: bool = False
    plan_id: str = ""  # the approved plan that it runs under
    process: str = ""  # who runs it, so that an execution without an end can be told from one that goes on
    folders: tuple[str, ...] = ()  # of the host, in its sandbox: `rw PATH` or `ro PATH`
    variables: tuple[str, ...] = ()  # names of what its environment has besides; no values
    execution_id: str = ""  # `trc_…`, of an execution by one HTTP call
    metadata: str = ""  # JSON of what its caller attached to it, redacted


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIntentRecord:
    """A call that may change something is about to be sent. Durable before it is."""

    kind: ClassVar[str] = "call_intent"
    run_id: str
    trace_id: str
    call_id: int
    at: str
    code_digest: str
    server_id: str
    tool_name: str
    tool_digest: str
    arguments_digest: str
    verdict: str
    rule_id: str
    approval: str
    approver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcomeRecord:
    """What one call came to, also when it was refused or cancelled. Exactly one per call."""

    kind: ClassVar[str] = "call_outcome"
    run_id: str
    trace_id: str
    call_id: int
    at: str
    principal: str
    session_id: str
    code_digest: str
    server_id: str
    tool_name: str
    tool_digest: str  # empty when the call did not resolve to a tool
    arguments_digest: str  # empty when the arguments are not JSON
    verdict: str  # empty when the call was refused before policy was asked
    rule_id: str
    approval: str
    approver: str
    duration_ms: float
    result_bytes: int
    result_digest: str
    error_type: str  # empty on success; `Cancelled` when the execution ended under the call
    retryable: bool = False
    redactions: Mapping[str, int] = field(default_factory=dict[str, int])  # secret name -> count
    warnings: tuple[str, ...] = ()
    taken_in: tuple[str, ...] = ()  # labels of what the code was given; rows of before have none
    task_id: str = ""  # the server's name for it, where it carried the call out as a task
    rehearsed: bool = False  # a dry run's: the call was NOT made, a placeholder answered it
    upstream_ms: float = 0.0  # of the duration, at the server; rows of before have neither this nor the next
    asked_ms: float = 0.0  # of the duration, until somebody had approved or refused


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsRefusedRecord:
    """Calls of one execution that were refused before anybody was asked and have no record of their own."""

    kind: ClassVar[str] = "calls_refused"
    run_id: str
    trace_id: str
    at: str
    principal: str
    session_id: str
    code_digest: str
    refused: Mapping[str, int]  # error type, and the tool if there is one: `PolicyDenied github.delete_repo` -> count


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequestRecord:
    """A server asked something while it worked on a call: a form, an address, sampling. Its content is not kept."""

    kind: ClassVar[str] = "question"
    run_id: str  # of the execution that was asked; empty when it was already over, or it may be of several or none
    trace_id: str
    at: str
    principal: str
    session_id: str
    code_digest: str
    runs: tuple[str, ...]  # all executions that it may be of
    server_id: str
    tool_name: str  # of the call, with its server; empty when it may be of several
    method: str
    mode: str  # `form` or `url`; empty for sampling
    question_digest: str  # as the server sent it; empty when it is not JSON
    verdict: str  # empty when it was declined before policy was asked
    rule_id: str
    answer: str  # `accept`, `decline`, `cancel`, `answered` (sampling), `refused` or `cancelled` (the call ended)
    answerer: str  # who answered; empty: nobody did
    approver: str  # who reviewed a sampling request
    why: str  # when nobody answered
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionEndRecord:
    """An execution is over. `redactions` counts what was taken out of its own output and result."""

    kind: ClassVar[str] = "execution_end"
    run_id: str
    trace_id: str
    at: str
    code_digest: str
    duration_ms: float
    calls: int
    calls_refused: int  # that never entered the pipeline: after the end, too many, unreadable
    approval: str
    error_type: str
    output_digest: str
    output_bytes: int
    envelope_digest: str = ""  # of the envelope without stdout, stderr, exit code and signal
    redactions: Mapping[str, int] = field(default_factory=dict[str, int])
    start_ms: float = 0.0  # of the duration, until the code could start; 0: it never did, or a row of before
    code_ms: float = 0.0  # of the duration, in the sandbox, tool calls and waiting for approvals included


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionLostRecord:
    """The replica of the service that ran an execution has ended before it. Whatever its code did is done."""

    kind: ClassVar[str] = "execution_lost"
    run_id: str
    trace_id: str
    at: str  # when the replica's lease expired, by the database's clock
    process: str  # the replica, as the start names it


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTransferRecord:
    """A file or archive went into a sandbox or out of it, or was to. `run_id` names the transfer."""

    kind: ClassVar[str] = "file_transfer"
    run_id: str
    at: str
    principal: str
    session_id: str
    direction: str  # `in` or `out` of the sandbox
    what: str  # `file` or `archive`
    path: str  # in the sandbox
    bytes: int  # what passed, also of a transfer that failed
    digest: str  # of all bytes; empty when not all passed
    error_type: str  # an error code; empty on success


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFilesRecord:
    """A thread or volume, or a file of one, was changed by no execution, or was to be. `run_id` names the change."""

    kind: ClassVar[str] = "stored_files"
    run_id: str
    at: str
    principal: str
    tree: str  # `thread:ID` or `volume:SLUG`
    owner: str  # whose thread it is; empty: the organisation's
    action: str  # `put` or `removed` (a file, or a folder with all in it), `created` or `deleted` (the tree itself)
    path: str  # in the tree; empty: the tree itself
    bytes: int  # that came, also of an upload that failed
    digest: str  # of what was put; empty when nothing was
    error_type: str  # an error code: nothing was changed; empty when it was


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRecord:
    """A connection of a session's code to the outside begins, has ended or was refused. `run_id` names the connection.

    One that was allowed leaves two: `open` before anything is dialled, and how it ended.
    """

    kind: ClassVar[str] = "connection"
    run_id: str
    at: str
    principal: str
    session_id: str
    host: str  # as the code named it
    port: int
    address: str  # that was dialled, or refused; empty before, or when there is none
    bytes_up: int
    bytes_down: int
    duration_ms: float
    outcome: str  # of `moonpool.network.connections.Outcome`
    credential: bool = False  # a request was sent with the domain's
    execution: str = ""  # run id of the one that ran when the host took it; empty: none did, or a row of before
    reason: str = ""  # one sentence, where it was refused or broken off by the proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionsRefusedRecord:
    """Connections of a session that were refused and have no record of their own. `run_id` names the record."""

    kind: ClassVar[str] = "connections_refused"
    run_id: str
    at: str
    principal: str
    session_id: str
    refused: Mapping[str, int]  # outcome and host -> count


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagesRecord:
    """Packages were installed for a session, or were to be. `run_id` names the installation."""

    kind: ClassVar[str] = "packages"
    run_id: str
    at: str
    principal: str
    session_id: str
    asked: tuple[str, ...]  # requirements; empty when what was asked for is none
    installed: tuple[str, ...]  # name==version of what is new or changed, dependencies included
    bytes: int  # that all packages of the session take
    cached: bool  # nothing was resolved or fetched
    error_type: str = ""  # an error code; empty on success


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A session was put back to an earlier state, or another one begins with its state. `run_id` names the record."""

    kind: ClassVar[str] = "checkpoint"
    run_id: str
    at: str
    principal: str
    session_id: str
    action: str  # `undone`, `recovered` (its process had ended) or `forked`
    name: str  # of the checkpoint; empty without one
    undone: tuple[str, ...] = ()  # run ids of the executions whose state is gone
    changing_calls: int = 0  # that those executions made, which are not undone
    forked_session: str = ""
    error_type: str = ""  # an error code; empty on success


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGrantRecord:
    """An approval grant was given or removed. `run_id` is its id, as calls name it by `approver`."""

    kind: ClassVar[str] = "standing_answer"
    run_id: str
    at: str
    what: str  # `given` or `removed`
    approver: str  # who did it
    request_id: str = ""  # the question; of an answer that is removed this and the following are empty
    principal: str = ""
    server_id: str = ""
    tool_name: str = ""
    tool_digest: str = ""
    conditions_digest: str = ""  # the arguments' own digest where only the same ones are covered
    human_only: bool = False
    expires_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan was made by a dry run, approved, denied or used. `run_id` is its id."""

    kind: ClassVar[str] = "plan"
    run_id: str
    at: str
    what: str  # `made`, `approved`, `denied` or `used`
    principal: str  # whose plan it is
    approver: str  # who answered it; empty when it is made
    plan_digest: str
    code_digest: str
    calls: int  # that it has
    rehearsal: str  # the run id of the dry run


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRecord:
    """A server changed a tool, or somebody accepted that. `run_id` names the record."""

    kind: ClassVar[str] = "drift"
    run_id: str
    at: str
    principal: str  # who noticed, as whoever runs the process, or accepted
    server_id: str
    tool_name: str
    action: str  # `passed` (harmless), `held`, `reported` (dangerous, but not held), `accepted`
    changes: tuple[str, ...]  # kinds of `moonpool.features.drift.model.changes.ChangeKind`
    before_digest: str  # of the definition; empty for a tool that is new
    after_digest: str  # empty for one that is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUpdateRecord:
    """A server's changed tool list was found, and wrappers of it made. `run_id` names the record."""

    kind: ClassVar[str] = "tools_updated"
    run_id: str
    at: str
    principal: str
    server_id: str
    cause: str  # `told` (the server said that its list changed) or `asked` (it was found by asking)
    update_ms: float  # from being told, or from asking, until the new wrappers were there
    unseen_ms: float  # since the server last answered with the former list: the most it stood unseen; -1: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUsageRecord:
    """A connection of a model is over: what it was shown of the tools, in tokens. `run_id` names the record."""

    kind: ClassVar[str] = "disclosure"
    run_id: str
    at: str
    principal: str
    executions: int
    tools: int
    upfront: int  # what all definitions would have cost
    shown: Mapping[str, int]  # what was shown instead, by kind


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryIntentRecord:
    """A saved action or skill is about to be kept, replaced or removed. Durable before it is. `run_id`: the change."""

    kind: ClassVar[str] = "library_intent"
    run_id: str
    at: str
    principal: str
    action: str
    entry: str
    before_digest: str
    after_digest: str
    from_run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryRecord:
    """A saved action or skill was kept, replaced or removed, or was to be. `run_id` names the change.

    Exactly one per intent, durable too; rows of before have no intent.
    """

    kind: ClassVar[str] = "library"
    run_id: str
    at: str
    principal: str
    action: str  # `saved`, `replaced` or `removed`
    entry: str  # as code and catalog name it: actions.github.top_commits
    before_digest: str  # of what was there; empty when nothing was, or it was damaged
    after_digest: str  # empty when it was removed
    from_run: str  # the execution whose code it is, if it was taken from one
    error_type: str = ""  # why nothing is changed; empty when it is
    settled: bool = False  # found out by a later process: the one that made the change died


@dataclass(frozen=True, slots=True, kw_only=True)
class AdministrationRecord:
    """A key, an organisation or a consent was made, changed or ended by an operator. `run_id` names the change."""

    kind: ClassVar[str] = "administration"
    run_id: str
    at: str
    principal: str  # who did it
    action: str  # `key_created`, `organisation_disabled`, ...
    subject: str  # a key's id, never its text; an organisation; whose consent
    details: tuple[str, ...] = ()  # rights and limits: `scopes execute files`, `quota 5/day`


AuditRecord: TypeAlias = (
    ExecutionStartRecord
    | CallIntentRecord
    | CallOutcomeRecord
    | CallsRefusedRecord
    | ServerRequestRecord
    | ExecutionEndRecord
    | ExecutionLostRecord
    | FileTransferRecord
    | StoredFilesRecord
    | ConnectionRecord
    | ConnectionsRefusedRecord
    | CheckpointRecord
    | PackagesRecord
    | ApprovalGrantRecord
    | PlanRecord
    | DriftRecord
    | ToolUpdateRecord
    | ContextUsageRecord
    | LibraryIntentRecord
    | LibraryRecord
    | AdministrationRecord
)
OutboxRecord: TypeAlias = ApprovalGrantRecord | PlanRecord
"""Comes through an outbox (`moonpool.store.outbox`), perhaps twice: the journal keeps one record of the same bytes."""
