"""Everything here talks to servers as others publish them, through the whole product."""

from __future__ import annotations
