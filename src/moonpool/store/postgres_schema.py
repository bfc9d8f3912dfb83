"""The tables that replicas share beside the database of organisations and keys: journals, leases, kept executions.

They are reached by bare asyncpg. `audit_head` and `audit_record` are the chains (`postgres_chain`); `replica`,
`replica_gone` and `replica_tenant` the leases (`postgres_leases`); `kept_execution` has what outlives requests
(`moonpool.engine.shared_executions`), with `process` while it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.audit import JournalError
from moonpool.store.postgres_connections import DatabaseAwayError

if TYPE_CHECKING:
    from moonpool.store.postgres_connections import PostgresConnections

SCHEMA: Final = (
    """
CREATE TABLE IF NOT EXISTS audit_head (
    tenant_id text PRIMARY KEY,
    seq bigint NOT NULL,
    hash text NOT NULL
)""",
    """
CREATE TABLE IF NOT EXISTS audit_record (
    tenant_id text NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    run_id text NOT NULL,
    body bytea NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (tenant_id, seq)
)""",
    "CREATE INDEX IF NOT EXISTS audit_record_by_run ON audit_record (tenant_id, run_id)",
    """
CREATE OR REPLACE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit journal is append-only'; END $$""",
    """
CREATE OR REPLACE TRIGGER audit_record_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_record
FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()""",
    """
CREATE OR REPLACE TRIGGER audit_head_only_moves_on BEFORE UPDATE ON audit_head
FOR EACH ROW WHEN (NEW.tenant_id <> OLD.tenant_id OR NEW.seq <= OLD.seq) EXECUTE FUNCTION audit_is_append_only()""",
    """
CREATE OR REPLACE TRIGGER audit_head_stays BEFORE DELETE OR TRUNCATE ON audit_head
FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()""",
    """
CREATE TABLE IF NOT EXISTS replica (
    replica_id text PRIMARY KEY,
    name text NOT NULL,
    expires_at timestamptz NOT NULL,
    steady_since timestamptz NOT NULL
)""",
    """
CREATE TABLE IF NOT EXISTS replica_gone (
    replica_id text PRIMARY KEY,
    name text NOT NULL,
    expired_at timestamptz NOT NULL
)""",
    """
CREATE TABLE IF NOT EXISTS replica_tenant (
    replica_id text NOT NULL,
    tenant_id text NOT NULL,
    after bigint NOT NULL,
    PRIMARY KEY (replica_id, tenant_id)
)""",
    """
CREATE TABLE IF NOT EXISTS kept_execution (
    tenant_id text NOT NULL,
    execution_id text NOT NULL,
    principal text NOT NULL,
    process text,
    cancelled boolean NOT NULL DEFAULT false,
    envelope bytea,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, execution_id)
)""",
    "COMMENT ON TABLE audit_record IS '1'",
)
"""Of the version that the comment says. The triggers are against mistakes; against a person who may alter the tables
only the hash chain helps.
"""
_SCHEMA_LOCK: Final = "SELECT pg_advisory_xact_lock(7023045991)"
SCHEMA_VERSION: Final = "1"
_HAS_SCHEMA: Final = "SELECT to_regclass('audit_record') IS NOT NULL"

_SCHEMA_S_MAX: Final = 30.0


async def create_schema(connections: PostgresConnections) -> None:
    """Create the tables where they are missing; several processes may do so at once. Raises JournalError.

    Where they exist, the database's user needs no right to create any.
    """
    try:
        ((exists,),) = await connections.fetch(_HAS_SCHEMA, within_s=_SCHEMA_S_MAX)
    except DatabaseAwayError as exc:
        raise JournalError(f"the audit journal in {connections.name} cannot be reached: {exc}") from exc
    if not exists:
        await connections.run([_SCHEMA_LOCK, *SCHEMA])
