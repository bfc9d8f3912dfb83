"""`moonpool serve`: the service over HTTP."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import stat
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moonpool.bootstrap.admission import Admitted, open_admission
from moonpool.bootstrap.service import everybody, open_service
from moonpool.cli.commands import command, config_option
from moonpool.cli.config_choice import data_folder, read_config
from moonpool.cli.mcp import settings_of_service
from moonpool.cli.serve_local import serve_local
from moonpool.cli.service_log import ServiceLog
from moonpool.cli.service_serving import allow_open_files, drained, served_at_socket, stopping, taken_folder
from moonpool.cli.settings import settings_option, use_settings
from moonpool.core.errors import ConfigError, Fault, MoonpoolError
from moonpool.environments.progress import stderr_progress
from moonpool.ipybox.mcp_server.hosted import served_profiles
from moonpool.server.http.application import Application
from moonpool.server.http.health import Readiness
from moonpool.server.http.request_limits import Names
from moonpool.server.http.serving import ServiceListener, http_served

if TYPE_CHECKING:
    from moonpool.server.http.admission import Admission
    from moonpool.settings import Settings


class ReplicaLostError(MoonpoolError):
    """The other replicas have taken this one for dead. It ends, since nothing is recorded any more."""

    code = "replica_lost"
    fault = Fault.HOST
    retryable = True


@command
@config_option
@settings_option
@click.option("--host", default="127.0.0.1", show_default=True, metavar="IP", help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free port.")
@click.option(
    "--data-dir",
    type=Path,
    metavar="DIR",
    help="What organisations own: journals, approvals, keys. Default: the data folder, which keeps environments.",
)
@click.option(
    "--database-url",
    metavar="URL",
    help="Where keys and what replicas share lie. Default: MOONPOOL_DATABASE_URL, else files in the data folder.",
)
@click.option(
    "--files-url",
    metavar="URL",
    help="Where files of threads and volumes lie: s3://... Default: MOONPOOL_FILES_URL, else the data folder.",
)
@click.option("--no-auth", is_flag=True, help="Everybody who reaches the address may use it: loopback only.")
@click.option("--profile", metavar="NAME", help="With --no-auth: offer this profile only. Default: code at /mcp.")
@click.option("--env", metavar="NAME", help="Environment: base or data. Default: data once it was built.")
@click.option("--policy", type=Path, metavar="FILE", help="Rules for tool calls (TOML). Default: MOONPOOL_POLICY.")
@click.option("--backend", metavar="NAME", help="Sandbox: zygote or bubblewrap.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one line of JSON on stderr for each request, and for everything else that is said.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="From which level on Moonpool's own log lines are shown.",
)
@click.option("--local", is_flag=True, help="At no address, for commands of this user only; ends when nothing is used.")
@click.option("--ready-fd", type=int, hidden=True)
def serve(  # noqa: PLR0913  its options
    *,
    config: Path | None,
    settings: Path | None,
    host: str,
    port: int,
    data_dir: Path | None,
    database_url: str | None,
    files_url: str | None,
    no_auth: bool,
    profile: str | None,
    env: str | None,
    policy: Path | None,
    backend: str | None,
    log_format: str,
    log_level: str,
    local: bool,
    ready_fd: int | None,
) -> None:
    """Serve MCP over HTTP to many clients at once, and sessions to this user's commands."""
    use_settings(settings)
    logs = ServiceLog(as_json=log_format == "json", level=log_level.upper())
    logs.begin()
    overrides: dict[str, Path | str | None] = {
        "policy": policy, "environment": env, "backend": backend, "database_url": database_url,
        "files_url": files_url,
    }  # fmt: skip
    if local:
        if no_auth or any(one is not None for one in (database_url, files_url, data_dir)):
            raise click.UsageError(
                "--local has no address and no keys: --no-auth, --database-url, --files-url and --data-dir do not "
                "go with it"
            )
        serve_local(config, overrides, ready_fd)
        return
    if profile is not None and not no_auth:
        raise click.UsageError("--profile needs --no-auth; else the path or the credential names the profile")
    address = _address(host)
    everyone = _everyone(address, profile) if no_auth else None
    asyncio.run(_serve(address, port, everyone, config, data_dir, overrides, logs))


def _address(host: str) -> str:
    """The IP address to listen at. SECURITY: names are not resolved. Raises ConfigError."""
    try:
        return str(ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.strip("[]")))
    except ValueError:
        raise ConfigError(f"--host must be an IP address, but is {host[:100]!r}; write 127.0.0.1 or ::1") from None


def _everyone(address: str, profile: str | None) -> Admission:
    """Admits everybody. Raises ConfigError, UnknownProfileError."""
    # SECURITY: fails closed: whoever reaches the address can run code as this user's tenant.
    if not ipaddress.ip_address(address).is_loopback:
        raise ConfigError(
            f"--no-auth would let everybody who reaches {address} run code; leave --host out, or leave --no-auth out "
            "and use keys"
        )
    return everybody(profile, served_profiles())


async def _serve(
    host: str,
    port: int,
    everyone: Admission | None,
    config_path: Path | None,
    data_dir: Path | None,
    overrides: dict[str, Path | str | None],
    logs: ServiceLog,
) -> None:
    """Serve until a signal, then answer what is in progress; without `everyone`, those with a credential.

    Raises MoonpoolError.
    """
    allow_open_files()
    settings = await settings_of_service(overrides)
    config = await asyncio.to_thread(read_config, config_path)
    state = _state_folder(settings, data_dir)
    listener = ServiceListener(host, port)
    async with AsyncExitStack() as bound:
        bound.callback(listener.close)
        # SECURITY: with --no-auth everybody who reaches the address is this user; at the socket only this user is.
        taken = None if everyone is not None else await bound.enter_async_context(taken_folder(state))
        readiness = Readiness()
        names = Names.of(host, listener.port, public_url=settings.public_url)
        if everyone is None:
            opening = open_admission(settings, state, names, f"http://{listener.netloc}")
            admitted = await bound.enter_async_context(opening)
        else:
            admitted = Admitted(admission=everyone)
        application = Application(names, admitted.admission, readiness)
        stop = bound.enter_context(stopping())
        reasons: list[str] = []

        def lost(why: str) -> None:
            reasons.append(why)
            stop.set()

        progress = bound.enter_context(stderr_progress())
        async with http_served(listener, logs.requests_of(application)) as server:
            service_open = open_service(
                settings,
                environ=os.environ,
                config=config,
                report=logs.say,
                state=state,
                profiles=served_profiles(),
                progress=progress,
                is_open=everyone is not None,
                admitted=admitted,
                on_lost=lost,
            )
            async with service_open as service:
                application.open(
                    service.routes,
                    (*admitted.public, *service.public),
                    limiter=service.limiter,
                    tracing=service.engine.tracing,
                )
                readiness.checks["environment"] = service.check_environment
                readiness.checks["database"] = service.check_database
                readiness.phase = "ready"
                servers = [server]
                if taken is not None:
                    local = served_at_socket(taken, service, readiness)
                    servers.append(await bound.enter_async_context(local))
                if admitted.has_no_keys:
                    logs.say("there are no keys yet; `moonpool keys create --org ORG` makes one")
                logs.say(f"MCP at http://{listener.netloc}/mcp")
                await stop.wait()
                if reasons:
                    raise ReplicaLostError(reasons[0])
                await drained(logs.say, service, readiness, stop, *servers)


def _state_folder(settings: Settings, data_dir: Path | None) -> Path:
    """The folder of what organisations own; made if need be. Raises ConfigError.

    SECURITY: who can rename in it could give one organisation the folder of another.
    """
    folder = (data_dir or data_folder(settings)).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise ConfigError(f"--data-dir {folder} cannot be used: {error.strerror}") from None
    if found.st_uid not in {0, os.geteuid()}:
        raise ConfigError(f"the data folder {folder} belongs to uid {found.st_uid}; name one of this user's")
    if found.st_mode & stat.S_IWOTH:
        raise ConfigError(f"everybody can write to the data folder {folder}; `chmod o-w` it, or name another one")
    return folder
