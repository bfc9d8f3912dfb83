"""`moonpool login SERVER`: allow Moonpool to use a server in your name."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from typing import TYPE_CHECKING

import click

from moonpool.bootstrap.stores import opened_stores
from moonpool.cli.commands import command, config_option
from moonpool.cli.config_choice import read_config
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.cli.printer import printable, remark
from moonpool.cli.service_data import data_dir_option, database_url_option, service_settings, with_service_data
from moonpool.core.errors import ConfigError, InputError
from moonpool.oauth.login_command import enter, leave
from moonpool.oauth.loopback import LoopbackAgent, PastingAgent
from moonpool.oauth.stored_logins import Logins
from moonpool.store.paths import DEFAULT_TENANT

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.configuration.servers import McpConfig, ServerConfig
    from moonpool.oauth.login import UserAgent


@command
@click.argument("server", help="Its name in the configuration.")
@config_option
@click.option("--headless", is_flag=True, help="The browser is on another machine: paste what it shows at the end.")
@click.option("--scope", default="", metavar="SCOPES", help="Ask for these scopes too; separated by spaces.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1, max=3600),
    metavar="SECONDS",
    default=300,
    show_default=True,
    help="Seconds to wait for the browser.",
)
@click.option("--forget", is_flag=True, help="Forget the login instead.")
@click.option("--org", metavar="ORG", help="For this organisation of the service: to a server that it may use.")
@data_dir_option
@database_url_option
def login(  # noqa: PLR0913  its options
    server: str,
    *,
    config: Path | None,
    headless: bool,
    scope: str,
    timeout: float,
    forget: bool,
    org: str | None,
    data_dir: Path | None,
    database_url: str | None,
) -> int:
    """Log in to a server by OAuth: open an address in a browser and store the tokens, encrypted."""
    settings, data = service_settings(data_dir, database_url)
    own = read_config(config)
    if org is not None:
        from moonpool.bootstrap.organisation_servers import servers_for

        own = with_service_data(data_dir, database_url, lambda opened: servers_for(opened, org, own))
    found = None if own is None else own.find(server)
    with opened_stores(settings, data, org or DEFAULT_TENANT) as stores:
        logins = Logins(stores.logins(of_own=found is not None and found.public_only))
        if forget:
            return forget_login(server, own, logins)
        return log_in(server, own, logins, scope=scope, timeout_s=None if headless else timeout)


def log_in(server_id: str, config: McpConfig | None, logins: Logins, *, scope: str, timeout_s: float | None) -> int:
    """Log in; without a time limit the person pastes the address. Raises ConfigError, InputError, OAuthError,
    SecretStoreError.
    """
    server = _server(server_id, config)
    agent: UserAgent
    agent = PastingAgent(_print_address, _pasted) if timeout_s is None else LoopbackAgent(_show, timeout_s=timeout_s)
    login = asyncio.run(enter(server, logins, agent, scope=scope))
    granted = f" for {login.tokens.scope}" if login.tokens.scope else ""
    stays = "" if login.tokens.refresh_token else "; it cannot be renewed without you"
    remark(f"logged in to {server.server_id} by {login.issuer}{granted}{stays}")
    return EXIT_OK


def forget_login(server_id: str, config: McpConfig | None, logins: Logins) -> int:
    """Forget the logins to a server. Raises ConfigError, InputError, SecretStoreError."""
    server = _server(server_id, config)
    count, problem = asyncio.run(leave(server, logins))
    if problem:
        remark(f"the login is forgotten here, but {problem}")
    if count:
        remark(f"forgot the login to {server.server_id}")
        return EXIT_OK
    remark(f"there is no login to {server.server_id}")
    return EXIT_FAILED


def _server(server_id: str, config: McpConfig | None) -> ServerConfig:
    if config is None:
        raise ConfigError("no servers are configured; pass --config FILE or run `moonpool init`")
    server = config.find(server_id)
    if server is None and server_id in config.left_out:
        raise config.left_out[server_id]
    if server is None:
        raise InputError(f"no server is called {server_id[:40]!r}; there are {', '.join(config.ids) or 'none'}")
    if not server.url:
        raise InputError(f"server {server_id!r} is a command, not a URL; it logs in by itself, or by a variable")
    return server


def _show(address: str) -> None:
    _print_address(address)
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(address)


def _print_address(address: str) -> None:
    """SECURITY: servers chose parts of it, and it goes to a terminal."""
    sys.stderr.write(f"open this address in a browser:\n\n  {printable(address)}\n\n")
    sys.stderr.flush()


def _pasted() -> str:
    sys.stderr.write("address it ended at: ")
    sys.stderr.flush()
    try:
        return input()
    except EOFError:
        raise InputError("no address was pasted; run this where you can type, or pipe the address in") from None
