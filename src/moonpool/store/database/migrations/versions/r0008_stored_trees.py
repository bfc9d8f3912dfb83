"""Threads and volumes: their heads, who holds them, blobs to be removed."""

from __future__ import annotations

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    pass
