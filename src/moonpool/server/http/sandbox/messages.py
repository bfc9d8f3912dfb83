"""Requests and answers of executions by one call. Frozen, typed.

Limits stand in the document for whoever reads it; what is beyond one is refused in Baponi's words by
`moonpool.engine.sandbox_runs.orders`, so they are not checked here a second time.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from moonpool.engine.sandbox_runs import orders
from moonpool.features.sandbox_configurations.model import TIMEOUT_S_MAX
from moonpool.features.storage.model import THREAD_ID_CHARS_MAX
from moonpool.features.webhooks.model import URL_CHARS_MAX

BODY_BYTES_MAX: Final = 2 * 1024**2
"""JSON of one request: code of 1 MiB, escaped."""


def _shown(**schema: Any) -> Meta:
    return Meta(extra_json_schema=schema)


class ExecuteRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Code to run in a sandbox of its own, and with what."""

    code: Annotated[str, _shown(minLength=1, maxLength=orders.CODE_BYTES_MAX)]
    language: Annotated[str, _shown(enum=["python", "node", "bash"])] | None = None
    timeout: Annotated[int, _shown(minimum=1, maximum=TIMEOUT_S_MAX)] | None = None
    """Seconds; null: the sandbox configuration's."""
    thread_id: Annotated[
        str, _shown(minLength=1, maxLength=THREAD_ID_CHARS_MAX, pattern="^[a-zA-Z0-9][a-zA-Z0-9_-]*$")
    ] | None = None  # fmt: skip
    """Files in the home directory are there again at the next execution with the same id."""
    metadata: Annotated[dict[str, Any], _shown(maxProperties=orders.METADATA_KEYS_MAX)] | None = None
    env_vars: Annotated[dict[str, str], _shown(maxProperties=50)] | None = None
    sub_paths: Annotated[tuple[str, ...], _shown(maxItems=orders.SUB_PATHS_MAX)] | None = None
    webhook_url: Annotated[str, _shown(maxLength=URL_CHARS_MAX, pattern="^https://")] | None = None
    """With `Prefer: respond-async`: where the result is sent."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the service sends; it may grow members."""


class ExecuteResult(_Answer, frozen=True):
    """What the code came to, also when it failed. `exit_code` -1: it never ran."""

    success: bool
    stdout: str
    stderr: str
    exit_code: int
    error: str | None


class Accepted(_Answer, frozen=True):
    """It runs; its result is at `/v1/executions/{trace_id}`."""

    trace_id: str
    status: str


class ListedExecution(_Answer, frozen=True):
    """One execution without its output. Times in RFC 3339."""

    trace_id: str
    status: Literal["running", "success", "failed", "timeout", "blocked", "oom", "cancelled"]
    exit_code: int | None
    error: str | None
    duration_ms: int
    delivery_mode: Literal["inline", "streaming", "webhook"]
    language: str
    thread_id: str | None
    metadata: dict[str, Any]
    created_at: str
    completed_at: str | None
    webhook_url: str | None = None
    webhook_delivery_status: Literal["pending", "delivered", "failed"] | None = None


class ExecutionStatus(ListedExecution, frozen=True):
    """One execution; its output is null while it runs."""

    stdout: str | None = None
    stderr: str | None = None
    output_truncated: bool = False


class ExecutionList(_Answer, frozen=True):
    """The newest first."""

    executions: tuple[ListedExecution, ...]
    next_cursor: str | None


class WebhookSecret(_Answer, frozen=True):
    """What signs the webhooks of your organisation."""

    secret: str


# --- lines of a stream


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """`seq` grows."""

    seq: int


class StatusLine(_Line, frozen=True, tag="status"):
    trace_id: str
    status: str


class OutputLine(_Line, frozen=True, tag="output"):
    stream: Literal["stdout", "stderr"]
    data: str


class KeepaliveLine(_Line, frozen=True, tag="keepalive"):
    pass


class ResultLine(_Line, frozen=True, tag="result"):
    """The last one."""

    trace_id: str
    status: str
    result: ExecuteResult
    output_truncated: bool


ExecutionLine = StatusLine | OutputLine | KeepaliveLine | ResultLine


# --- queries


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`metadata.KEY=VALUE` beside these: what was attached to an execution."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    cursor: Annotated[str, Meta(max_length=400)] | None = None
    status: Literal["running", "success", "failed", "timeout", "blocked", "oom", "cancelled"] | None = None
    thread_id: Annotated[str, Meta(max_length=THREAD_ID_CHARS_MAX)] | None = None
    since: Annotated[str, Meta(max_length=40)] | None = None
    """RFC 3339, or seconds since 1970."""


class OutputQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lines behind this one."""

    after_seq: Annotated[int, Meta(ge=0, le=2**53)] = 0
