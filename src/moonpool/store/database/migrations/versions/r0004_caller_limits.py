"""Limits of keys and organisations, and what was used of their quotas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for table in ("organisation", "api_key"):
        op.add_column(table, sa.Column("rate_limit", sa.String(32)))
        op.add_column(table, sa.Column("concurrency_max", sa.Integer))
        op.add_column(table, sa.Column("quota", sa.String(32)))
    op.create_table(
        "quota_use",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("principal", sa.String(200), primary_key=True),
        sa.Column("period_start", sa.Double, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
    )
