"""The service's tables, as the newest migration leaves them; a test compares.

Times are seconds since 1970, as everywhere in Moonpool. Text is bounded by the features that write it.

SECURITY: what belongs to an organisation has its id in its primary key, and every query names it. What tenants keep
refers to no row of `organisation`, because the command line's tenant has none.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

METADATA: Final = MetaData()

ORGANISATION: Final = Table(
    "organisation",
    METADATA,
    Column("id", String(63), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("disabled_at", Double),
    Column("rate_limit", String(32)),
    Column("concurrency_max", Integer),
    Column("quota", String(32)),
    Column("default_configuration", String(64)),
)

API_KEY: Final = Table(
    "api_key",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("organisation_id", String(63), ForeignKey("organisation.id"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("prefix", String(64), nullable=False),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("scopes", String(200), nullable=False),
    Column("profile", String(63)),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("last_used_at", Double),
    Column("rate_limit", String(32)),
    Column("concurrency_max", Integer),
    Column("quota", String(32)),
    Column("configuration_id", String(64)),  # none: the organisation's default
    Column("variable_names", String(8000)),
    Column("variables", String(600_000)),  # sealed
    Column("workspace_thread", String(128)),
    Index("api_key_by_organisation", "organisation_id"),
)

CONSENT: Final = Table(
    "consent",
    METADATA,
    Column("organisation_id", String(63), ForeignKey("organisation.id"), primary_key=True),
    Column("principal", String(200), primary_key=True),
    Column("client_id", String(255), primary_key=True),
    Column("server_id", String(255), primary_key=True),
    Column("server_digest", String(80), nullable=False),
    Column("given_by", String(255), nullable=False),
    Column("given_at", Double, nullable=False),
    Column("withdrawn_at", Double),
)

APPROVAL_REQUEST: Final = Table(
    "approval_request",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("request_id", String(64), primary_key=True),
    Column("run_id", String(200), nullable=False),
    Column("session_id", String(200), nullable=False),
    Column("principal", String(200), nullable=False),
    Column("server_id", String(8000), nullable=False),
    Column("tool_name", String(8000), nullable=False),
    Column("tool_digest", String(200), nullable=False),
    Column("arguments", String(8000), nullable=False),
    Column("arguments_digest", String(200), nullable=False),
    Column("reason", String(8000), nullable=False),
    Column("rule_id", String(8000), nullable=False),
    Column("human_only", Boolean, nullable=False),
    Column("cut", Boolean, nullable=False),
    Column("whole", String(600_000), nullable=False),
    Column("server_digest", String(200), nullable=False),
    Column("server_address", String(8000), nullable=False),
    Column("config_file", String(8000), nullable=False),
    Column("code_line", BigInteger, nullable=False),
    Column("asked_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("owner", String(200), nullable=False),
    Column("state", String(20), nullable=False),
    Column("approver", String(8000), nullable=False),
    Column("note", String(1000), nullable=False),
    Column("answered_at", Double),
    Column("taken_at", Double),
    Column("seen_at", Double, nullable=False),  # by who asked, on the server's clock
    Index("approval_request_by_state", "organisation_id", "state"),
)

APPROVAL_GRANT: Final = Table(
    "approval_grant",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("answer_id", String(64), primary_key=True),
    Column("principal", String(200), nullable=False),
    Column("server_id", String(8000), nullable=False),
    Column("tool_name", String(8000), nullable=False),
    Column("tool_digest", String(200), nullable=False),
    Column("server_digest", String(200), nullable=False),
    Column("server_address", String(8000), nullable=False),
    Column("conditions", String(200_000), nullable=False),
    Column("arguments_digest", String(200), nullable=False),
    Column("human_only", Boolean, nullable=False),
    Column("given_by", String(8000), nullable=False),
    Column("given_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("request_id", String(64), nullable=False),
    Index("approval_grant_by_principal", "organisation_id", "principal"),
)

OUTBOX: Final = Table(
    "outbox",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("change_id", String(64), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("body", LargeBinary(65_536), nullable=False),
    Column("put_at", Double, nullable=False),  # on the server's clock
)

PLAN: Final = Table(
    "plan",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("plan_id", String(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("digest", String(200), nullable=False),
    Column("made_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("state", String(20), nullable=False),
    Column("approver", String(8000), nullable=False),
    Column("by_person", Boolean, nullable=False),
    Column("principal", String(200), nullable=False),
    Index("plan_by_state", "organisation_id", "state"),
)

ORGANISATION_SERVER: Final = Table(
    "organisation_server",
    METADATA,
    Column("organisation_id", String(63), ForeignKey("organisation.id"), primary_key=True),
    Column("change_id", String(64), primary_key=True),
    Column("server_id", String(255), nullable=False),
    Column("url", String(2048), nullable=False),
    Column("expose", String(10), nullable=False),
    Column("header_names", String(4000), nullable=False),
    Column("headers", String(200_000), nullable=False),  # sealed
    Column("added_by", String(255), nullable=False),
    Column("added_at", Double, nullable=False),
    Column("recorded_at", Double),  # that it was added stands in the journal
    Column("removed_by", String(255)),
    Column("removed_at", Double),  # the row goes when that stands in the journal, too
)

SANDBOX_CONFIGURATION: Final = Table(
    "sandbox_configuration",
    METADATA,
    Column("organisation_id", String(63), ForeignKey("organisation.id"), primary_key=True),
    Column("configuration_id", String(64), primary_key=True),
    Column("name", String(63), nullable=False),
    Column("body", String(200_000), nullable=False),
    Column("variable_names", String(8000), nullable=False),
    Column("variables", String(600_000), nullable=False),  # sealed
    Column("changed_at", Double, nullable=False),
    Index("sandbox_configuration_by_name", "organisation_id", "name", unique=True),
)

TOOL_SWITCHED_OFF: Final = Table(
    "tool_switched_off",
    METADATA,
    Column("organisation_id", String(63), ForeignKey("organisation.id"), primary_key=True),
    Column("tool", String(400), primary_key=True),
    Column("switched_by", String(255), nullable=False),
    Column("switched_at", Double, nullable=False),
)

ORGANISATION_POLICY: Final = Table(
    "organisation_policy",
    METADATA,
    Column("organisation_id", String(63), ForeignKey("organisation.id"), primary_key=True),
    Column("body", String(300_000), nullable=False),  # TOML
    Column("set_by", String(255), nullable=False),
    Column("set_at", Double, nullable=False),
)

QUOTA_USE: Final = Table(
    "quota_use",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("principal", String(200), primary_key=True),  # empty: all of the organisation's
    Column("period_start", Double, nullable=False),
    Column("used", BigInteger, nullable=False),
)

BUDGET_USE: Final = Table(
    "budget_use",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("principal", String(200), primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("argument_bytes", BigInteger, nullable=False),
    Column("result_bytes", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),
    Column("wall_s", Double, nullable=False),
)

BUDGET_COUNT: Final = Table(
    "budget_count",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("principal", String(200), primary_key=True),
    Column("kind", String(8), primary_key=True),  # tool, second
    Column("name", String(64), primary_key=True),
    Column("calls", BigInteger, nullable=False),
)

KEPT: Final = Table(
    "kept",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("kind", String(20), primary_key=True),
    Column("place", String(64), primary_key=True),  # SHA-256 of the name, which may be too long for an index
    Column("name", String(8000), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("put_at", Double, nullable=False),  # on the server's clock
)

STORED_TREE: Final = Table(
    "stored_tree",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("kind", String(8), primary_key=True),  # thread, volume
    Column("owner", String(200), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("tree_id", String(32), nullable=False, unique=True),
    Column("version", BigInteger, nullable=False),
    Column("manifest", String(200), nullable=False),  # a blob; empty: never written
    Column("digest", String(64), nullable=False),
    Column("bytes_count", BigInteger, nullable=False),  # of its files
    Column("stored_bytes", BigInteger, nullable=False),  # of its blobs
    Column("entry_count", Integer, nullable=False),
    Column("created_at", Double, nullable=False),  # these four on the server's clock
    Column("used_at", Double, nullable=False),
    Column("held_until", Double, nullable=False),
    Column("holder", String(32), nullable=False),  # empty: nobody
    Column("held_by", String(200), nullable=False),
)

STORED_GARBAGE: Final = Table(
    "stored_garbage",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("garbage_id", String(32), primary_key=True),  # of a commit: its id
    Column("state", String(8), nullable=False),  # pending: a commit that goes on; garbage; swept: being removed
    Column("prefix", String(80), nullable=False),  # blobs that begin so, where there are no names
    Column("bytes_count", BigInteger, nullable=False),
    Column("due_at", Double, nullable=False),  # on the server's clock
    Column("names", LargeBinary, nullable=False),  # a JSON list
    Index("stored_garbage_by_due", "due_at"),
    Index("stored_garbage_bytes", "organisation_id", "bytes_count"),  # summed by every commit, without their names
)

EXECUTION_RECORD: Final = Table(
    "execution_record",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("trace_id", String(32), primary_key=True),
    Column("principal", String(200), nullable=False),
    Column("run_id", String(64), nullable=False),
    Column("process", String(200), nullable=False),  # that runs it
    Column("language", String(20), nullable=False),
    Column("delivery_mode", String(20), nullable=False),
    Column("status", String(20), nullable=False),
    Column("thread_id", String(128)),
    Column("metadata", String(200_000), nullable=False),  # JSON in ASCII
    Column("exit_code", Integer),
    Column("stdout", LargeBinary),  # UTF-8, which may hold what no text of PostgreSQL may
    Column("stderr", LargeBinary),
    Column("output_bytes", BigInteger, nullable=False),
    Column("output_truncated", Boolean, nullable=False),
    Column("error", String(100)),
    Column("duration_ms", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("completed_at", Double),
    Column("last_seq", BigInteger, nullable=False),
    Column("cancel_asked", Boolean, nullable=False),
    Column("webhook_url", String(2048)),
    Column("webhook_status", String(20)),
    Index("execution_record_by_age", "organisation_id", "created_at"),
    Index("execution_record_by_status", "status"),
)

EXECUTION_LABEL: Final = Table(
    "execution_label",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("trace_id", String(32), primary_key=True),
    Column("key", String(40), primary_key=True),
    Column("value", String(4000), nullable=False),  # JSON in ASCII
)

WEBHOOK_DELIVERY: Final = Table(
    "webhook_delivery",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("delivery_id", String(64), primary_key=True),
    Column("trace_id", String(32), nullable=False),
    Column("url", String(2048), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Double, nullable=False),  # this and the next on the clock that all replicas share
    Column("claimed_until", Double, nullable=False),
    Index("webhook_delivery_by_time", "next_at"),
)

WEBHOOK_SECRET: Final = Table(
    "webhook_secret",
    METADATA,
    Column("organisation_id", String(63), primary_key=True),
    Column("secret", String(1000), nullable=False),  # sealed
    Column("made_at", Double, nullable=False),
)
