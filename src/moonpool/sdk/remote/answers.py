"""What a service says, as applications see it, and what applications want, as a service is asked for it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, cast

from moonpool.core.envelope import ExecutionError
from moonpool.core.errors import InputError
from moonpool.engine.branches import Checkpoint
from moonpool.engine.packages.model import InstalledPackage, InstalledPackages
from moonpool.sdk.checkpoints import Undone, UndoneCall
from moonpool.sdk.events import CallEventsDropped, Output, Progress, ToolCallEnded, ToolCallStarted
from moonpool.sdk.options import Limits, Network
from moonpool.sdk.results import Display, File, Result
from moonpool.server.http.sessions import lines, messages

if TYPE_CHECKING:
    from moonpool.network.rules import HeaderCredential
    from moonpool.sdk.options import SessionOptions
    from moonpool.server.http.sessions.lines import Line, ResultLine

_NOT_THERE: Final = ("approval_expiry_s",)


def result_of_line(line: ResultLine) -> Result:
    """What an execution came to."""
    told = _object(line.envelope.get("result"))
    error = told.get("error")
    metrics = _object(told.get("metrics"))
    return Result(
        run_id=line.run_id,
        data=told.get("data"),
        error=_error(_object(error)) if error is not None else None,
        stdout=_text(told.get("stdout")),
        stderr=_text(told.get("stderr")),
        displays=tuple(Display(mime=d.mime, data=d.data, name=d.name, forms=d.forms) for d in line.displays),
        files=tuple(File(name=f.name, size=f.size, mime=f.mime, path=f.path) for f in line.files),
        text=line.text,
        note=_text(told.get("note")),
        exit_code=_count(told.get("exit_code")),
        duration_ms=_count(line.envelope.get("duration_ms")),
        tool_calls=_count(metrics.get("tool_calls")),
        failed_by=line.failed_by,
        state=line.state_after,
        recovered=None if line.recovered is None else undone_of(line.recovered),
        envelope={**line.envelope, "result": {**told, "metrics": metrics}},
    )


def _error(told: dict[str, Any]) -> ExecutionError:
    return ExecutionError(
        type=_text(told.get("type")), message=_text(told.get("message")), retryable=told.get("retryable") is True
    )


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def told_by(line: Line) -> list[Output | ToolCallStarted | ToolCallEnded | CallEventsDropped | Progress]:
    """The event of a line that only tells; none of a sign of life."""
    match line:
        case lines.OutputLine():
            return [Output(stream=line.stream, text=line.text, dropped_bytes=line.dropped_bytes)]
        case lines.CallStartedLine():
            return [ToolCallStarted(call_id=line.call_id, tool=line.tool)]
        case lines.CallEndedLine():
            return [
                ToolCallEnded(
                    call_id=line.call_id,
                    tool=line.tool,
                    error_type=line.error_type,
                    message=line.message,
                    approval=line.approval,
                    duration_ms=line.duration_ms,
                )
            ]
        case lines.ProgressLine():
            return [Progress(tool=line.tool, progress=line.progress, total=line.total, message=line.message)]
        case lines.CallsDroppedLine() | lines.MissedLine():
            return [CallEventsDropped(count=line.count)]
        case _:
            return []


def checkpoint_of(ref: messages.CheckpointRef) -> Checkpoint:
    """A checkpoint."""
    return Checkpoint(ref.number, ref.name, ref.execution, ref.sandbox_id)


def ref_of(checkpoint: Checkpoint) -> messages.CheckpointRef:
    """The same for the service."""
    return messages.CheckpointRef(
        number=checkpoint.number,
        name=checkpoint.name,
        execution=checkpoint.execution,
        sandbox_id=checkpoint.sandbox_id,
    )


def undone_of(body: messages.UndoneBody) -> Undone:
    """What going back came to."""
    return Undone(
        checkpoint=checkpoint_of(body.checkpoint),
        run_ids=body.run_ids,
        calls=tuple(
            UndoneCall(tool=call.tool, run_id=call.run_id, may_have_changed=call.may_have_changed)
            for call in body.calls
        ),
        lost_files=body.lost_files,
    )


def installed_of(answer: messages.Installed) -> InstalledPackages:
    """What an installation came to."""

    def package(one: messages.Package) -> InstalledPackage:
        return InstalledPackage(name=one.name, version=one.version, sha256=one.sha256)

    return InstalledPackages(
        new=tuple(map(package, answer.new)),
        packages=tuple(map(package, answer.packages)),
        size=answer.size,
        cached=answer.cached,
    )


def wanted_session(options: SessionOptions) -> messages.CreateSession:
    """What to ask for. Raises InputError for what a service does not take."""
    limits = options.limits or Limits()
    given = {one.name: getattr(limits, one.name) for one in fields(limits)}
    for name in _NOT_THERE:
        if given.pop(name) is not None:
            raise InputError(f"limits: {name} is the service's own; leave it out")
    packages = options.packages
    return messages.CreateSession(
        environment=options.environment,
        limits=messages.WantedLimits(**given),
        checkpoints=options.checkpoints,
        network=_wanted_network(options),
        packages=(packages,) if isinstance(packages, str) else None if packages is None else tuple(packages),
    )


def _wanted_network(options: SessionOptions) -> messages.WantedNetwork | None:
    network = options.network
    if network is None:
        return None
    if not isinstance(network, Network):
        network = Network(allow=network)
    credentials = {domain: credential_of(one) for domain, one in network.credentials.items()}
    return messages.WantedNetwork(allow=tuple(network.allow), credentials=credentials)


def credential_of(credential: HeaderCredential) -> messages.Credential:
    """A credential, for the service."""
    return messages.Credential(header=credential.header, value=credential.value)
