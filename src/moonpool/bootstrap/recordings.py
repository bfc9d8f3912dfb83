"""Recordings: their file, and the recorder that writes them."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

from moonpool.bootstrap.folders import data_folder
from moonpool.core.version import VERSION
from moonpool.features.recordings.recorder import Recorder
from moonpool.features.recordings.table import RecordingsFile
from moonpool.features.recordings.writer import RecordingWriter
from moonpool.store.paths import DEFAULT_TENANT, recordings_path, secrets_dir, tenant_dir
from moonpool.store.sealing import Sealer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AsyncExitStack
    from pathlib import Path

    from moonpool.redaction.redactor import Redactor
    from moonpool.settings import Settings
    from moonpool.store.disk_room import DiskRoom


def make_sealer(data: Path, environ: Mapping[str, str]) -> Sealer:
    """The sealer that encrypts recordings, if there is a key."""
    return Sealer(secrets_dir(data), environ, "recordings")


def open_recordings(
    settings: Settings, environ: Mapping[str, str], tenant_id: str = DEFAULT_TENANT
) -> closing[RecordingsFile]:
    """The recordings of a tenant on this machine, to read and remove. Blocking. Raises RecordingError."""
    data = tenant_dir(data_folder(settings, environ), tenant_id)
    return closing(RecordingsFile(recordings_path(data), make_sealer(data, environ), make=False))


def open_recorder(
    stack: AsyncExitStack,
    settings: Settings,
    data: Path,
    redactor: Redactor,
    environ: Mapping[str, str],
    room: DiskRoom,
) -> Recorder | None:
    """A recorder of executions, if enabled in `settings`. Nothing is opened before the first execution."""
    if settings.record == "off":
        return None
    writer = RecordingWriter(
        recordings_path(data),
        make_sealer(data, environ),
        days=settings.recording_days,
        bytes_max=settings.recording_bytes_max,
        take=room.take,
    )
    stack.push_async_callback(asyncio.to_thread, writer.close)
    return Recorder(writer, redactor, settings, VERSION)
