"""What replicas share of tenants' private files: saved actions, accepted tools, logins, keys of receipts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "kept",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("kind", sa.String(20), primary_key=True),
        sa.Column("place", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(8000), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("put_at", sa.Double, nullable=False),
    )
