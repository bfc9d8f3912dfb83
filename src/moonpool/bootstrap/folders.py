"""Paths of the installation, and the uid that must be able to read them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from moonpool.sandboxes.identity import UID_FIRST
from moonpool.store.paths import data_dir

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.settings import Settings


def data_folder(settings: Settings, environ: Mapping[str, str]) -> Path:
    """The data folder in force."""
    return settings.data_dir or data_dir(os.geteuid(), environ)


def sandbox_uid() -> int:
    """The uid that must be able to read environments: our own, or the first of the range when we are root."""
    return os.geteuid() or UID_FIRST
