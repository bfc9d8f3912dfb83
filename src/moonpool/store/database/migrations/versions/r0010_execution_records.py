"""Records of executions by one call, and deliveries of their results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "execution_record",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("trace_id", sa.String(32), primary_key=True),
        sa.Column("principal", sa.String(200), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("process", sa.String(200), nullable=False),
        sa.Column("language", sa.String(20), nullable=False),
        sa.Column("delivery_mode", sa.String(20), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("thread_id", sa.String(128)),
        sa.Column("metadata", sa.String(200_000), nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("stdout", sa.LargeBinary),
        sa.Column("stderr", sa.LargeBinary),
        sa.Column("output_bytes", sa.BigInteger, nullable=False),
        sa.Column("output_truncated", sa.Boolean, nullable=False),
        sa.Column("error", sa.String(100)),
        sa.Column("duration_ms", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("completed_at", sa.Double),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("cancel_asked", sa.Boolean, nullable=False),
        sa.Column("webhook_url", sa.String(2048)),
        sa.Column("webhook_status", sa.String(20)),
    )
    op.create_table(
        "execution_label",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("trace_id", sa.String(32), primary_key=True),
        sa.Column("key", sa.String(40), primary_key=True),
        sa.Column("value", sa.String(4000), nullable=False),
    )
    op.create_table(
        "webhook_delivery",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("delivery_id", sa.String(64), primary_key=True),
        sa.Column("trace_id", sa.String(32), nullable=False),
        sa.Column("url", sa.String(2048), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_at", sa.Double, nullable=False),
        sa.Column("claimed_until", sa.Double, nullable=False),
    )
    op.create_table(
        "webhook_secret",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("secret", sa.String(1000), nullable=False),
        sa.Column("made_at", sa.Double, nullable=False),
    )
    op.create_index("execution_record_by_age", "execution_record", ["organisation_id", "created_at"])
    op.create_index("execution_record_by_status", "execution_record", ["status"])
    op.create_index("webhook_delivery_by_time", "webhook_delivery", ["next_at"])
