"""Consents of users to OAuth clients that use logins of ours."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "consent",
        sa.Column("organisation_id", sa.String(63), sa.ForeignKey("organisation.id"), primary_key=True),
        sa.Column("principal", sa.String(200), primary_key=True),
        sa.Column("client_id", sa.String(255), primary_key=True),
        sa.Column("server_id", sa.String(255), primary_key=True),
        sa.Column("server_digest", sa.String(80), nullable=False),
        sa.Column("given_by", sa.String(255), nullable=False),
        sa.Column("given_at", sa.Double, nullable=False),
        sa.Column("withdrawn_at", sa.Double),
    )
