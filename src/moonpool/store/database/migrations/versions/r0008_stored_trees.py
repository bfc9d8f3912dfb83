"""Threads and volumes: their heads, who holds them, blobs to be removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "stored_tree",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("kind", sa.String(8), primary_key=True),
        sa.Column("owner", sa.String(200), primary_key=True),
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("tree_id", sa.String(32), nullable=False, unique=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("manifest", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("bytes_count", sa.BigInteger, nullable=False),
        sa.Column("stored_bytes", sa.BigInteger, nullable=False),
        sa.Column("entry_count", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("used_at", sa.Double, nullable=False),
        sa.Column("held_until", sa.Double, nullable=False),
        sa.Column("holder", sa.String(32), nullable=False),
        sa.Column("held_by", sa.String(200), nullable=False),
    )
    op.create_table(
        "stored_garbage",
        sa.Column("organisation_id", sa.String(63), primary_key=True),
        sa.Column("garbage_id", sa.String(32), primary_key=True),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("prefix", sa.String(80), nullable=False),
        sa.Column("bytes_count", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.Double, nullable=False),
        sa.Column("names", sa.LargeBinary, nullable=False),
    )
    op.create_index("stored_garbage_by_due", "stored_garbage", ["due_at"])
