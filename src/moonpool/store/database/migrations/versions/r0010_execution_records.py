"""Records of executions by one call, and deliveries of their results."""

from __future__ import annotations

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    pass
