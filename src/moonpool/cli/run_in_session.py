"""`moonpool run --session NAME`: find or open the session at this user's service, run there, print here.

The session keeps what it was opened with: configuration, policy, environment and backend. A later run may omit them; a
run with different ones is refused. Each run chooses its approver.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from moonpool.cli.approvers import open_approver, responder_beside
from moonpool.cli.config_choice import chosen_path
from moonpool.cli.interrupts import Interrupts
from moonpool.cli.service_start import SessionError, local_service
from moonpool.cli.session_run import SessionRun
from moonpool.cli.sessions_here import checked_name, named_session
from moonpool.core.errors import MoonpoolError
from moonpool.core.json import digest_json
from moonpool.sdk.remote.files import RemoteFiles
from moonpool.server.http.sessions import messages

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.cli.run_order import RunOrder, RunParts
    from moonpool.cli.service_start import LocalService
    from moonpool.sdk.remote.connection import Connection
    from moonpool.server.http.sessions.messages import KeptOrder, SessionAnswer
    from moonpool.settings import Settings

_TRIES_MAX: Final = 3


async def run_in_session(parts: RunParts, name: str) -> None:
    """Run the code in session `name` and print its line. Raises MoonpoolError before there is an envelope."""
    interrupts = Interrupts()
    checked_name(name)
    async with (
        local_service(parts.settings) as service,
        open_approver(parts.order.approve, parts.output, parts.settings) as approver,
    ):
        for tries_left in reversed(range(_TRIES_MAX)):
            path = f"sessions/{(await _session(service, parts, name)).id}"
            files = RemoteFiles(service.connection, path)
            run = SessionRun(
                service.connection,
                path,
                show=parts.output.show,
                say=parts.output.say,
                approver=approver,
                responder=responder_beside(approver),
            )
            try:
                await parts.files.send(files)
                interrupts.aim(run)
                printed = await run.execute(parts.source, parts.order.timeout_s)
            except MoonpoolError as error:
                if error.code != "session_unknown" or not tries_left:  # it has ended since it was found: nothing ran
                    raise
            else:
                interrupts.aim(None)
                await parts.hand_over(printed.line.encode(), printed.ok, files)
                return


async def _session(service: LocalService, parts: RunParts, name: str) -> SessionAnswer:
    """The session, opened if need be, at a service that is started if need be. Raises MoonpoolError."""
    order = parts.order
    wanted_policy = _policy_digest(parts.settings)

    async def found(connection: Connection) -> SessionAnswer:
        session = await named_session(connection, name)
        if session is None:
            wanted = _wanted(parts, name, wanted_policy)
            session = await connection.order("POST", "sessions", wanted, messages.SessionAnswer)
        return session

    async def start() -> None:
        options = [f"--{option}={value}" for option, value in _serve_options(parts) if value is not None]
        await service.start(options, parts.output.say)

    session = await service.asked(found, start)
    assert session is not None
    if (kept := session.terminal) is None:
        raise SessionError(f"session {name!r} is not one of `moonpool run --session`; use another name")
    if (difference := _misfit(session.environment, kept, order, wanted_policy)) is not None:
        raise SessionError(
            f"session {name!r} was started with {difference}; close it (moonpool session close {name}) or use another "
            "name"
        )
    return session


def _serve_options(parts: RunParts) -> list[tuple[str, object]]:
    """What the service is started with, so that it has the settings of this session."""
    order = parts.order
    return [("config", order.config), ("policy", order.policy), ("env", order.environment), ("backend", order.backend)]


def _misfit(environment: str, kept: KeptOrder, order: RunOrder, policy_digest: str | None) -> str | None:
    """How the session differs from what this run says, or None."""
    wanted = {
        "environment": (order.environment, environment),
        "backend": (order.backend, kept.backend),
        "workspace": (_workspace(order.workspace), kept.workspace),
    }
    for what, (given, own) in wanted.items():
        if given is not None and given != own:
            return f"{what} {own!r}, not {given!r}"
    if order.config is not None and _config_digest(order.config) != kept.config_digest:
        return f"other servers ({kept.config or 'no configuration'})"
    if policy_digest is not None and policy_digest != kept.policy_digest:
        return "another policy file" if kept.policy_digest else "no policy file"
    if order.allow_network and set(order.allow_network) != set(kept.network):
        return f"a network of {', '.join(kept.network)}" if kept.network else "no network"
    return None


def _wanted(parts: RunParts, name: str, policy_digest: str | None) -> messages.CreateSession:
    order, path = parts.order, chosen_path(parts.order.config, os.environ)
    terminal = messages.TerminalOrder(
        environ=_environ(parts.settings),
        here=_as_text(os.getcwd()),  # noqa: PTH109  a string
        config=None if path is None else _as_text(str(path.absolute())),
        config_digest=_config_digest(path),
        policy_digest=policy_digest or "",
        workspace=_workspace(order.workspace),
    )
    network = messages.WantedNetwork(allow=order.allow_network) if order.allow_network else None
    return messages.CreateSession(name=name, terminal=terminal, network=network)


def _environ(settings: Settings) -> dict[str, str]:
    """Our variables, and the settings in force as variables, whose paths count from nowhere else."""
    environ = {name: value for name, value in os.environ.items() if _is_text(name) and _is_text(value)}
    for name, default in zip(settings.__struct_fields__, settings.__struct_defaults__, strict=True):
        if (value := getattr(settings, name)) != default:
            text = str(value.absolute() if (default is None) else value)
            environ[f"MOONPOOL_{name.upper()}"] = _as_text(text)
    return environ


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_text(path: str) -> str:
    if not _is_text(path):
        raise SessionError("the path of a session's folder, configuration or policy file is no UTF-8; rename it")
    return path


def _workspace(folder: Path | None) -> str | None:
    return None if folder is None else _as_text(str(folder.expanduser().resolve()))


def _policy_digest(settings: Settings) -> str | None:
    """Digest of the rules in the policy files as they are now."""
    if not any((settings.policy, settings.key_policy, settings.session_policy)):
        return None
    from moonpool.configuration.policies import files_digest

    return files_digest(settings)


def _config_digest(path: Path | None) -> str:
    """Digest of a configuration's servers and rules, with variables as they are now."""
    if path is None:
        return ""
    from moonpool.configuration.server_files import load_servers
    from moonpool.configuration.servers import resolved_key

    config = load_servers(path, os.environ)
    return digest_json(
        {server.server_id: [resolved_key(server), repr(server.rules), server.trusted] for server in config.servers}
    )
