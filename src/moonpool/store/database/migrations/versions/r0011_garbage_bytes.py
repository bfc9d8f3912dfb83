"""What an organisation's garbage takes is summed by every commit: without reading the rows, whose names are long."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_index("stored_garbage_bytes", "stored_garbage", ["organisation_id", "bytes_count"])
