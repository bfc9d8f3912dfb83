"""Packages of a replay: those that the session had installed, by digest, from the wheels that are kept.

INVARIANT: a replay asks no package index. A wheel that is not kept any more ends it before anything runs.
SECURITY: names and digests are the recording's word. A digest names a wheel that the host unpacked and compares with
its digests again; whoever changes a recording can choose among these, for code that is sealed like all code.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.core.errors import MoonpoolError
from moonpool.core.json import digest_bytes
from moonpool.engine.packages.model import SessionPackages, StoredWheel
from moonpool.engine.packages.requests import InstallAnswer
from moonpool.replay.source import read_object
from moonpool.replay.stage import ReplayImpossibleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from moonpool.core.json import JsonObject
    from moonpool.engine.packages.store import WheelStore
    from moonpool.features.recordings.model import RecordedPackage, Recording
    from moonpool.sandboxes.base import Sandbox


class ReplayedPackages:
    """What executions of one replay had installed."""

    def __init__(self, store: WheelStore, recordings: Iterable[Recording]) -> None:
        self._store, self._recordings = store, tuple(recordings)
        self._wheels: dict[str, StoredWheel] = {}

    def find(self) -> None:
        """Look for all that is needed. Blocks. Raises ReplayImpossibleError."""
        for recording in self._recordings:
            for packages in (recording.header.packages, *(one.packages for one in recording.installs)):
                for package in packages:
                    self._find(package, recording.header.run_id)

    def _find(self, package: RecordedPackage, run_id: str) -> None:
        if package.sha256 in self._wheels:
            return
        if (wheel := self._store.find(package.sha256)) is None:
            what = f"{package.name}=={package.version}"
            raise ReplayImpossibleError(
                f"{run_id} had installed {what} (sha256 {package.sha256[:12]}…), which is not kept here any more; "
                f"install it in a session, as by `%pip install {what}`, and replay again"
            )
        self._wheels[package.sha256] = wheel

    async def show(self, sandbox: Sandbox, packages: Iterable[RecordedPackage]) -> None:
        """Let code import them. Raises ReplayImpossibleError."""
        there = SessionPackages(wheels={one.sha256: self._wheels[one.sha256] for one in packages})
        if not there.wheels:
            return
        try:
            await asyncio.to_thread(sandbox.publish_packages, there.folders, there.digest)
        except OSError as error:
            why = (error.strerror or "it failed").lower()
            raise ReplayImpossibleError(f"installed packages cannot be shown: {why}; replay again") from None

    async def answer(
        self, text: str, recording: Recording, place: int, sandbox: Sandbox, note: Callable[[str], None]
    ) -> InstallAnswer:
        """What the code got for its installation number `place`."""
        recorded = recording.installs[place] if place < len(recording.installs) else None
        message = "the recording has no such installation here: the code asks for other packages than it did"
        if recorded is not None and recorded.asked_digest == digest_bytes(text.encode("utf-8", "replace")):
            try:
                await self.show(sandbox, recorded.packages)
                return InstallAnswer(reply=read_object(recorded.reply, recording.header.run_id))
            except MoonpoolError as error:
                message = str(error)
        note(message)
        failure: JsonObject = {"type": "ReplayDiverged", "message": message, "retryable": False}
        return InstallAnswer(reply={"ok": False, "error": failure})
