"""`moonpool serve`: the service over HTTP."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moonpool.bootstrap.admission import Admitted, open_admission
from moonpool.bootstrap.service import everybody, open_service
from moonpool.cli.commands import command, config_option
from moonpool.cli.config_choice import data_folder, read_config
from moonpool.cli.mcp import settings_of_service
from moonpool.cli.printer import remark
from moonpool.core.errors import ConfigError
from moonpool.core.phrases import on_one_line
from moonpool.environments.progress import stderr_progress
from moonpool.server.http.application import Application
from moonpool.server.http.health import Readiness
from moonpool.server.http.request_limits import Names
from moonpool.server.http.serving import DRAIN_S, ServiceListener, http_served

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from moonpool.server.http.admission import Admission
    from moonpool.settings import Settings


@command
@config_option
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
@click.option("--no-auth", is_flag=True, help="Everybody who reaches the address may use it: loopback only.")
@click.option("--profile", metavar="NAME", help="With --no-auth: offer this profile only. Default: code at /mcp.")
@click.option("--env", metavar="NAME", help="Environment: base or data. Default: data once it was built.")
@click.option("--policy", type=Path, metavar="FILE", help="Rules for tool calls (TOML). Default: MOONPOOL_POLICY.")
@click.option("--backend", metavar="NAME", help="Sandbox: zygote or bubblewrap.")
def serve(  # noqa: PLR0913  its options
    *,
    config: Path | None,
    host: str,
    port: int,
    data_dir: Path | None,
    database_url: str | None,
    no_auth: bool,
    profile: str | None,
    env: str | None,
    policy: Path | None,
    backend: str | None,
) -> None:
    """Serve MCP over HTTP to many clients at once."""
    if profile is not None and not no_auth:
        raise click.UsageError("--profile needs --no-auth; else the path or the credential names the profile")
    address = _address(host)
    everyone = _everyone(address, profile) if no_auth else None
    overrides: dict[str, Path | str | None] = {
        "policy": policy, "environment": env, "backend": backend, "database_url": database_url,
    }  # fmt: skip
    asyncio.run(_serve(address, port, everyone, config, data_dir, overrides))


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
    return everybody(profile)


async def _serve(
    host: str,
    port: int,
    everyone: Admission | None,
    config_path: Path | None,
    data_dir: Path | None,
    overrides: dict[str, Path | str | None],
) -> None:
    """Serve until a signal, then answer what is in progress; without `everyone`, those with a credential.

    Raises MoonpoolError.
    """
    settings = await settings_of_service(overrides)
    config = await asyncio.to_thread(read_config, config_path)
    state = _state_folder(settings, data_dir)
    listener = ServiceListener(host, port)
    async with AsyncExitStack() as bound:
        bound.callback(listener.close)
        readiness = Readiness()
        names = Names.of(host, listener.port, public_url=settings.public_url)
        if everyone is None:
            opening = open_admission(settings, state, names, f"http://{listener.netloc}")
            admitted = await bound.enter_async_context(opening)
        else:
            admitted = Admitted(admission=everyone)
        application = Application(names, admitted.admission, readiness)
        stop = bound.enter_context(_stopping())
        progress = bound.enter_context(stderr_progress())
        async with http_served(listener, application) as server:
            service_open = open_service(
                settings,
                environ=os.environ,
                config=config,
                report=_report,
                state=state,
                progress=progress,
                is_open=everyone is not None,
                consents=admitted.consents,
                database=admitted.database,
            )
            async with service_open as service:
                application.open(service.routes, (*admitted.public, *service.public))
                readiness.phase = "ready"
                if admitted.has_no_keys:
                    _report("there are no keys yet; `moonpool keys create --org ORG` makes one")
                _report(f"MCP at http://{listener.netloc}/mcp")
                await stop.wait()
                stop.clear()
                readiness.phase = "draining"
                _report(f"stopping; calls in progress have {DRAIN_S:g} s to end")
                service.servers.end_listening()
                await _until(stop, server.drain(DRAIN_S, busy=lambda: service.is_busy))


def _state_folder(settings: Settings, data_dir: Path | None) -> Path:
    """The folder of what organisations own; made if need be. Raises ConfigError."""
    folder = (data_dir or data_folder(settings)).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--data-dir {folder} cannot be used: {error.strerror}") from None
    return folder


async def _until(stop: asyncio.Event, work: Coroutine[object, object, bool]) -> None:
    """Wait for `work`, at most until another signal."""
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        stopped.cancel()


@contextmanager
def _stopping() -> Generator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in numbers:
            with suppress(ValueError):
                loop.remove_signal_handler(number)


def _report(text: str) -> None:
    remark(on_one_line(text))
