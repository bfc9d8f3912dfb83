"""Assembles a replay from a backend and a journal. No configuration is read, and there is no server or approver."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from moonpool.bootstrap.caller_grants import local_principal
from moonpool.bootstrap.folders import data_folder, sandbox_uid
from moonpool.bootstrap.packages import wheel_store
from moonpool.bootstrap.programs import find_runtimes
from moonpool.bootstrap.recordings import open_recordings
from moonpool.bootstrap.sandboxes import BACKENDS, limit_groups, make_backend, sandbox_spec
from moonpool.bootstrap.token_counts import make_token_accounting
from moonpool.bootstrap.tools import make_redactor
from moonpool.core.errors import ConfigError, HostUnfitError
from moonpool.engine.artifacts import ArtifactLimits, Artifacts
from moonpool.engine.run_folder import run_folder
from moonpool.environments.resolve import resolve_environment
from moonpool.features.recordings.model import RecordingError
from moonpool.features.recordings.recorder import RECORDED_SETTINGS
from moonpool.replay.service import Replayer, ReplayRequest
from moonpool.replay.source import load_source
from moonpool.replay.stage import ReplayImpossibleError, ReplayParts
from moonpool.sandboxes.container_sockets import refuse_shown
from moonpool.settings import Settings
from moonpool.store.journals import journal_reader, open_journal_place
from moonpool.store.process_marks import own_mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.environments.base import ProgressSink
    from moonpool.features.recordings.model import RunHeader
    from moonpool.replay.report import ReplayReport
    from moonpool.replay.source import ReplaySource


async def replay_run(
    settings: Settings, request: ReplayRequest, *, environ: Mapping[str, str], progress: ProgressSink | None = None
) -> ReplayReport:
    """Replay one execution. Raises RecordingError, ReplayImpossibleError, and start errors of executions."""
    data = data_folder(settings, environ)

    def load() -> ReplaySource:
        with open_recordings(settings, environ) as reader:
            return load_source(reader, journal_reader(settings, data), request.run_id)

    source = await asyncio.to_thread(load)
    header = source.target.recording.header
    settings = _settings_of_then(settings, header)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(run_folder(data / "run"))
        backend = make_backend(settings, folder, await limit_groups(stack, settings), data)
        if missing := backend.missing_features():
            raise HostUnfitError(tuple(missing))
        stack.push_async_callback(backend.close)
        try:
            environment = await resolve_environment(
                settings.environment, root=data / "environments", uid=sandbox_uid(), progress=progress
            )
        except ConfigError as error:
            raise ReplayImpossibleError(f"the environment of {header.run_id} is gone: {error}") from None
        spec = sandbox_spec(settings, environment, data, await find_runtimes(data, environ))
        await asyncio.to_thread(refuse_shown, spec.image, environ)
        if (now := f"{spec.image.name}@{spec.image.digest}") != header.environment_id:
            raise ReplayImpossibleError(
                f"{header.run_id} ran in environment {header.environment_id}, but {header.environment!r} is {now} by "
                f"now; replay it with Moonpool {header.version} and the packages of that time, or run the code again"
            )
        place = await stack.enter_async_context(open_journal_place(settings, data))
        journal = await stack.enter_async_context(place.open(lazily=False))
        accounting = make_token_accounting(settings, data)
        stack.push_async_callback(accounting.close)
        parts = ReplayParts(
            settings=settings,
            backend=backend,
            journal=journal,
            redactor=make_redactor(settings, None),
            artifacts=Artifacts(data / "private" / "artifacts", ArtifactLimits.of(settings)),
            sandbox_spec=spec,
            process=own_mark(),
            principal=local_principal(),
            tokens=accounting,
            trees=folder / "trees",
            wheels=wheel_store(data, settings),
        )
        return await Replayer(parts, source, request).replay()


def _settings_of_then(settings: Settings, header: RunHeader) -> Settings:
    """SECURITY: a recording never raises a limit above the operator's and never disables redaction."""
    if header.backend not in BACKENDS:
        raise RecordingError(f"the recording of {header.run_id} is damaged: it names no backend")
    given = {name: value for name, value in header.settings.items() if name in RECORDED_SETTINGS}
    limits = {
        name: max(1, min(value, getattr(settings, name))) for name, value in given.items() if isinstance(value, int)
    }
    personal = [*settings.personal_kinds, *str(given.get("redact_personal", "")).split(",")]
    patterns = "on" if "on" in {settings.redact_patterns, given.get("redact_patterns")} else "off"
    then: dict[str, Any] = {
        **limits,
        "backend": header.backend,
        "environment": header.environment,
        "redact_patterns": patterns,
        "packages": given.get("packages", settings.packages),  # what errors advise; a replay installs none
        "redact_personal": ",".join(dict.fromkeys(one.strip() for one in personal if one.strip())),
    }
    try:
        return Settings.load({}, **msgspec.structs.asdict(settings) | then)
    except ConfigError as error:  # the operator's own were read before
        raise RecordingError(
            f"the recording of {header.run_id} is damaged: its settings cannot be used: {error}"
        ) from None
