"""What tenants keep beside the journal: approvals, plans, and the outbox of their records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "approval_request",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("request_id", sa.String(64), primary_key=True),
        sa.Column("run_id", sa.String(200), nullable=False),
        sa.Column("session_id", sa.String(200), nullable=False),
        sa.Column("principal", sa.String(200), nullable=False),
        sa.Column("server_id", sa.String(8000), nullable=False),
        sa.Column("tool_name", sa.String(8000), nullable=False),
        sa.Column("tool_digest", sa.String(200), nullable=False),
        sa.Column("arguments", sa.String(8000), nullable=False),
        sa.Column("arguments_digest", sa.String(200), nullable=False),
        sa.Column("reason", sa.String(8000), nullable=False),
        sa.Column("rule_id", sa.String(8000), nullable=False),
        sa.Column("human_only", sa.Boolean, nullable=False),
        sa.Column("cut", sa.Boolean, nullable=False),
        sa.Column("whole", sa.String(600_000), nullable=False),
        sa.Column("server_digest", sa.String(200), nullable=False),
        sa.Column("server_address", sa.String(8000), nullable=False),
        sa.Column("config_file", sa.String(8000), nullable=False),
        sa.Column("code_line", sa.BigInteger, nullable=False),
        sa.Column("asked_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("approver", sa.String(8000), nullable=False),
        sa.Column("note", sa.String(1000), nullable=False),
        sa.Column("answered_at", sa.Double),
        sa.Column("taken_at", sa.Double),
        sa.Column("seen_at", sa.Double, nullable=False),
    )
    op.create_index("approval_request_by_state", "approval_request", ["organisation_id", "state"])
    op.create_table(
        "approval_grant",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("answer_id", sa.String(64), primary_key=True),
        sa.Column("principal", sa.String(200), nullable=False),
        sa.Column("server_id", sa.String(8000), nullable=False),
        sa.Column("tool_name", sa.String(8000), nullable=False),
        sa.Column("tool_digest", sa.String(200), nullable=False),
        sa.Column("server_digest", sa.String(200), nullable=False),
        sa.Column("server_address", sa.String(8000), nullable=False),
        sa.Column("conditions", sa.String(200_000), nullable=False),
        sa.Column("arguments_digest", sa.String(200), nullable=False),
        sa.Column("human_only", sa.Boolean, nullable=False),
        sa.Column("given_by", sa.String(8000), nullable=False),
        sa.Column("given_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
    )
    op.create_index("approval_grant_by_principal", "approval_grant", ["organisation_id", "principal"])
    op.create_table(
        "outbox",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("change_id", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("body", sa.LargeBinary(65_536), nullable=False),
        sa.Column("put_at", sa.Double, nullable=False),
    )
    op.create_table(
        "plan",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("plan_id", sa.String(64), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.String(200), nullable=False),
        sa.Column("made_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("approver", sa.String(8000), nullable=False),
        sa.Column("by_person", sa.Boolean, nullable=False),
        sa.Column("principal", sa.String(200), nullable=False),
    )
    op.create_index("plan_by_state", "plan", ["organisation_id", "state"])
