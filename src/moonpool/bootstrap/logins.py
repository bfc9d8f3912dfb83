"""Credentials of servers with a login, from the secret store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from moonpool.oauth.credentials import Credentials
from moonpool.oauth.stored_logins import Logins

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.configuration.servers import McpConfig
    from moonpool.oauth.login import UserAgent
    from moonpool.oauth.stored_logins import LoginStore


def make_credentials(
    config: McpConfig,
    store: LoginStore,
    *,
    agent: UserAgent | None = None,
    on_secrets: Callable[[str, frozenset[str]], None] | None = None,
) -> dict[str, Credentials]:
    """Credentials for every server with a URL; nothing is read or sent before their first use."""
    return {
        server.server_id: Credentials(
            server.server_id,
            server.url,
            server.oauth,
            Logins(store),
            agent=agent,
            on_secrets=None if on_secrets is None else partial(on_secrets, server.server_id),
            public_only=server.public_only,
        )
        for server in config.servers
        if server.may_log_in
    }
