"""Sandbox configurations, which of them a key uses, and tools and rules of organisations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("organisation", sa.Column("default_configuration", sa.String(64)))
    op.add_column("api_key", sa.Column("configuration_id", sa.String(64)))
    op.add_column("api_key", sa.Column("variable_names", sa.String(8000)))
    op.add_column("api_key", sa.Column("variables", sa.String(600_000)))
    op.add_column("api_key", sa.Column("workspace_thread", sa.String(128)))
    op.create_table(
        "sandbox_configuration",
        sa.Column("organisation_id", sa.String(63), sa.ForeignKey("organisation.id"), primary_key=True),
        sa.Column("configuration_id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("body", sa.String(200_000), nullable=False),
        sa.Column("variable_names", sa.String(8000), nullable=False),
        sa.Column("variables", sa.String(600_000), nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
    )
    op.create_index("sandbox_configuration_by_name", "sandbox_configuration", ["organisation_id", "name"], unique=True)
    op.create_table(
        "tool_switched_off",
        sa.Column("organisation_id", sa.String(63), sa.ForeignKey("organisation.id"), primary_key=True),
        sa.Column("tool", sa.String(400), primary_key=True),
        sa.Column("switched_by", sa.String(255), nullable=False),
        sa.Column("switched_at", sa.Double, nullable=False),
    )
    op.create_table(
        "organisation_policy",
        sa.Column("organisation_id", sa.String(63), sa.ForeignKey("organisation.id"), primary_key=True),
        sa.Column("body", sa.String(300_000), nullable=False),
        sa.Column("set_by", sa.String(255), nullable=False),
        sa.Column("set_at", sa.Double, nullable=False),
    )
