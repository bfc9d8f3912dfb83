"""What principals have used of their budgets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "budget_use",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("principal", sa.String(200), primary_key=True),
        sa.Column("calls", sa.BigInteger, nullable=False),
        sa.Column("argument_bytes", sa.BigInteger, nullable=False),
        sa.Column("result_bytes", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.Double, nullable=False),
        sa.Column("wall_s", sa.Double, nullable=False),
    )
    op.create_table(
        "budget_count",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("principal", sa.String(200), primary_key=True),
        sa.Column("kind", sa.String(8), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("calls", sa.BigInteger, nullable=False),
    )
