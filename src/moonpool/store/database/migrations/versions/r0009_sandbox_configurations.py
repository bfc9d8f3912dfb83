"""Sandbox configurations, which of them a key uses, and tools that an organisation has switched off."""

from __future__ import annotations

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    pass
