"""Credentials of servers with a login, from the secret store.

SECURITY: logins to servers that organisations added are kept apart from those to the operator's, also at one address:
else an organisation could add the address of an operator's server under another name, and have its login without the
rules that the operator gave for that name.
"""

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
_KIND_OF_OWN = "login to an organisation's server"


class SealedLoginStore:
    """The login store of `oauth.stored_logins` in the secret store."""

    def __init__(self, store: SecretStore, kind: str) -> None:
        self._store, self._kind = store, kind

    def names(self) -> tuple[str, ...]:
        return self._store.names(self._kind)

    def get(self, name: str) -> str | None:
        return self._store.get(self._kind, name)

    def put(self, name: str, text: str) -> None:
        self._store.put(self._kind, name, text)

    def remove(self, name: str) -> bool:
        return self._store.remove(self._kind, name)


def open_logins(data: Path, environ: Mapping[str, str], *, of_own: bool = False) -> Logins:
    """Logins to the operator's servers; `of_own`: to those that the organisation added."""
    return Logins(SealedLoginStore(SecretStore(secrets_dir(data), environ), _KIND_OF_OWN if of_own else _KIND))


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
