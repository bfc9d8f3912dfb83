"""The `oauth` block of a server entry: what an operator may say about logging in. All of it is optional. Pure."""

from __future__ import annotations

import ipaddress
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

PERSON_GRANT: Final = "authorization_code"
MACHINE_GRANT: Final = "client_credentials"
NO_GRANT: Final = "none"


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to log in to one server. SECURITY: `repr` shows no secret."""

    client_id: str = ""  # registered there beforehand
    client_secret: str = ""
    client_metadata_url: str = ""  # our client id where the issuer reads client documents
    redirect_uri: str = ""  # registered with `client_id`; empty: a random port of this machine
    scope: str = ""  # asked for in place of what the server proposes
    authorization_server: str = ""  # which of several; empty: the first, and with a secret always that one

    grant: str = ""  # `client_credentials`: a machine's own login, without a person; `none`: it is never logged in to
    private_key: str = ""  # PEM; signs who the client is, in place of a secret

    @property
    def has_secret(self) -> bool:
        """Whether it holds what proves who the client is: given by one issuer, and for that one only."""
        return bool(self.client_secret or self.private_key)

    @property
    def is_machine(self) -> bool:
        """Whether no person is needed."""
        return self.grant == MACHINE_GRANT

    def problem(self) -> str:
        """What makes these settings unusable; empty if nothing does."""
        if self.client_secret and not self.client_id:
            return '"client_secret" needs "client_id"'
        if self.grant not in {"", PERSON_GRANT, MACHINE_GRANT, NO_GRANT}:
            return f'"grant" must be "{PERSON_GRANT}", "{MACHINE_GRANT}" or "{NO_GRANT}"'
        if self.grant == NO_GRANT and self != OAuthSettings(grant=NO_GRANT):
            return f'"grant": "{NO_GRANT}" excludes everything else in "oauth"'
        if self.private_key and (self.client_secret or not self.client_id):
            return '"private_key" needs "client_id" and excludes "client_secret"'
        if self.is_machine and not (self.client_id and (self.client_secret or self.private_key)):
            return f'"grant": "{MACHINE_GRANT}" needs "client_id" and "client_secret" or "private_key"'
        if self.client_metadata_url:
            parts = urlsplit(self.client_metadata_url)
            if parts.scheme != "https" or not parts.hostname or parts.path in {"", "/"}:
                return '"client_metadata_url" must be an https address with a path'
        if self.redirect_uri and not _may_come_back_to(self.redirect_uri):
            return '"redirect_uri" must be http://127.0.0.1:PORT/..., http://localhost:PORT/... or an https address'
        return ""

    def __repr__(self) -> str:
        return f"OAuthSettings(client_id={self.client_id!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("client_id", self.client_id)]


def is_loopback(url: str) -> bool:
    """Whether the host of `url` is this machine by its spelling; no name is resolved."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _may_come_back_to(url: str) -> bool:
    """SECURITY: a code that travels in the clear to another machine can be read on the way (E-033)."""
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and not parts.fragment and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return whole and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url)))
