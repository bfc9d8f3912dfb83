"""Servers that organisations add by URL."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "organisation_server",
        sa.Column("organisation_id", sa.String(63), sa.ForeignKey("organisation.id"), primary_key=True),
        sa.Column("change_id", sa.String(64), primary_key=True),
        sa.Column("server_id", sa.String(255), nullable=False),
        sa.Column("url", sa.String(2048), nullable=False),
        sa.Column("expose", sa.String(10), nullable=False),
        sa.Column("header_names", sa.String(4000), nullable=False),
        sa.Column("headers", sa.String(200_000), nullable=False),
        sa.Column("added_by", sa.String(255), nullable=False),
        sa.Column("added_at", sa.Double, nullable=False),
        sa.Column("recorded_at", sa.Double),
        sa.Column("removed_by", sa.String(255)),
        sa.Column("removed_at", sa.Double),
    )
