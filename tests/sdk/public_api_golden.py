"""Writes `public_api.txt` anew."""

from sdk.test_public_api import GOLDEN, described

GOLDEN.write_text(described(), encoding="utf-8")
