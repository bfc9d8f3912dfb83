"""Credentials of servers with a login, from the secret store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from moonpool.oauth.credentials import Credentials
from moonpool.oauth.stored_logins import Logins
from moonpool.store.paths import secrets_dir
from moonpool.store.secrets import SecretStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from moonpool.configuration.servers import McpConfig
    from moonpool.oauth.login import UserAgent

_KIND = "login"


class SealedLoginStore:
    """The login store of `oauth.stored_logins` in the secret store."""

    def __init__(self, store: SecretStore) -> None:
        self._store = store

    def names(self) -> tuple[str, ...]:
        return self._store.names(_KIND)

    def get(self, name: str) -> str | None:
        return self._store.get(_KIND, name)

    def put(self, name: str, text: str) -> None:
        self._store.put(_KIND, name, text)

    def remove(self, name: str) -> bool:
        return self._store.remove(_KIND, name)


def open_logins(data: Path, environ: Mapping[str, str]) -> Logins:
    return Logins(SealedLoginStore(SecretStore(secrets_dir(data), environ)))


def make_credentials(
    config: McpConfig,
    logins: Logins,
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
            logins,
            agent=agent,
            on_secrets=None if on_secrets is None else partial(on_secrets, server.server_id),
            public_only=server.public_only,
        )
        for server in config.servers
        if server.may_log_in
    }
