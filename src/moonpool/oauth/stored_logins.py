"""Stored logins, by issuer, resource, client id and the server's URL.

Logins are kept in a store of sealed strings by name (`store.secrets` in the product); its methods block and run in a
thread.

SECURITY: a login is found only by the exact URL it was made for. Even if a resource covers a second server's URL, that
server does not get the token. SECURITY: the issuer of a configured secret is stored before the secret is sent:
otherwise a server whose first issuer refuses could name another, and so on.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import anyio.to_thread
import msgspec

from moonpool.core.errors import MoonpoolError
from moonpool.oauth.addresses import canonical, same_issuer
from moonpool.oauth.grants import TokenSet
from moonpool.oauth.registration import ClientIdentity

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.configuration.oauth_settings import OAuthSettings

RENEWED_WITHIN_S: Final = 60.0
_PAUSE_S: Final = 0.1

_LOGIN_PARTS: Final = 4
_PIN_PARTS: Final = 3


class LoginStore(Protocol):
    """Keeps sealed strings by name."""

    def names(self) -> tuple[str, ...]: ...
    def get(self, name: str, /) -> str | None: ...
    def put(self, name: str, text: str, /) -> None: ...
    def remove(self, name: str, /) -> bool: ...
    def claim(self, name: str, for_s: float, /) -> bool:
        """Whether nobody else has `name` now; we have it until `release`, or for so long."""
        ...

    def release(self, name: str, /) -> None: ...


class MemoryLoginStore:
    """The in-memory implementation."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.texts))

    def get(self, name: str) -> str | None:
        return self.texts.get(name)

    def put(self, name: str, text: str) -> None:
        self.texts[name] = text

    def remove(self, name: str) -> bool:
        return self.texts.pop(name, None) is not None

    def claim(self, _name: str, _for_s: float) -> bool:
        return True

    def release(self, _name: str) -> None:
        """Nobody else had it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Login:
    """A login: server, client and tokens."""

    server_url: str
    issuer: str
    resource: str
    token_endpoint: str
    client: ClientIdentity
    tokens: TokenSet
    revocation_endpoint: str = ""

    @property
    def name(self) -> str:
        return json.dumps([self.issuer, self.resource, self.client.client_id, canonical(self.server_url)])

    @property
    def header(self) -> str:
        return f"Bearer {self.tokens.access_token}"

    @property
    def secrets(self) -> frozenset[str]:
        found = (self.tokens.access_token, self.tokens.refresh_token, self.client.client_secret)
        return frozenset(filter(None, found))

    def with_tokens(self, tokens: TokenSet) -> Login:
        return replace(self, tokens=tokens)

    def __repr__(self) -> str:
        return f"Login({self.server_url!r} by {self.issuer!r})"


class Logins:
    """The logins in one store."""

    def __init__(self, shelf: LoginStore) -> None:
        self._shelf = shelf

    @asynccontextmanager
    async def renewing(self, server_url: str) -> AsyncGenerator[None]:
        """In turn with other replicas: an issuer takes a refresh token that is used twice for a stolen one."""
        name = canonical(server_url)
        while not await anyio.to_thread.run_sync(self._shelf.claim, name, RENEWED_WITHIN_S):  # noqa: ASYNC110  another machine
            await anyio.sleep(_PAUSE_S)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True), suppress(MoonpoolError):  # then it ends by itself
                await anyio.to_thread.run_sync(self._shelf.release, name)

    async def find(self, server_url: str, settings: OAuthSettings) -> Login | None:
        """The login for this URL that fits the configured client and issuer."""
        return await anyio.to_thread.run_sync(self._find, server_url, settings)

    async def keep(self, login: Login) -> None:
        """Store it; it replaces all other logins for the same URL."""
        await anyio.to_thread.run_sync(self._keep, login)

    async def forget(self, server_url: str) -> int:
        """Forget the logins and pinned issuers for this URL; returns how many there were."""
        return await anyio.to_thread.run_sync(self._forget_all, server_url)

    async def pin(self, server_url: str, client_id: str, issuer: str) -> None:
        """From now on send the configured secret of this client only to `issuer`."""
        await anyio.to_thread.run_sync(self._pin, server_url, client_id, issuer)

    async def pinned(self, server_url: str, settings: OAuthSettings) -> str:
        """The issuer that the configured secret was sent to; empty if it was never sent."""
        return await anyio.to_thread.run_sync(self._pinned, server_url, settings)

    def _pin(self, server_url: str, client_id: str, issuer: str) -> None:
        name = _pin_name(server_url, client_id)
        if self._shelf.get(name) != issuer:
            self._shelf.put(name, issuer)

    def _pinned(self, server_url: str, settings: OAuthSettings) -> str:
        held = self._shelf.get(_pin_name(server_url, settings.client_id))
        if held is None and (login := self._find(server_url, settings)) is not None:
            return login.issuer
        return held or ""

    def _find(self, server_url: str, settings: OAuthSettings) -> Login | None:
        for name in self._names_of(server_url):
            issuer, _, client_id, _ = json.loads(name)
            if settings.client_id and client_id != settings.client_id:
                continue
            if settings.authorization_server and not same_issuer(issuer, settings.authorization_server):
                continue
            login = _read(self._shelf.get(name))
            if login is not None and login.name == name:
                return replace(login, client=replace(login.client, private_key=settings.private_key))
        return None

    def _keep(self, login: Login) -> None:
        stored = asdict(login)
        del stored["client"]["private_key"]
        self._shelf.put(login.name, json.dumps(stored))
        self._forget(login.server_url, login.name)

    def _forget(self, server_url: str, but: str) -> int:
        return sum(self._shelf.remove(name) for name in self._names_of(server_url) if name != but)

    def _forget_all(self, server_url: str) -> int:
        pins = self._names_of(server_url, parts=_PIN_PARTS)
        return self._forget(server_url, "") + sum(self._shelf.remove(name) for name in pins)

    def _names_of(self, server_url: str, *, parts: int = _LOGIN_PARTS) -> list[str]:
        wanted = canonical(server_url)
        split = ((name, _parts(name)) for name in self._shelf.names())
        return [name for name, found in split if len(found) == parts and found[-1] == wanted]


def _pin_name(server_url: str, client_id: str) -> str:
    return json.dumps(["issuer", client_id, canonical(server_url)])


def _parts(name: str) -> list[str]:
    try:
        return msgspec.json.decode(name.encode(), type=list[str])
    except msgspec.DecodeError:
        return []


def _read(text: str | None) -> Login | None:
    """Parse a stored login; a format of another release counts as missing."""
    try:
        stored: Any = json.loads(text or "")
        client, tokens = ClientIdentity(**stored.pop("client")), TokenSet(**stored.pop("tokens"))
        return Login(**stored, client=client, tokens=tokens)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
