"""The credential of one server: the current header, and what to do when the server refuses it.

INVARIANT: at most one renewal runs, as its own task, and every call that needs it waits for it. No lock is held during
a request, and cancelling a caller does not stop the renewal: a used refresh token is always replaced by its successor.
SECURITY: without a person (`agent`) nothing that needs one is started; the call fails with `LoginNeededError`.
SECURITY: a configured secret is sent to the configured authorization server, or otherwise always to the first one it
was sent to: a server's metadata change if somebody else takes the server over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import time
from typing import TYPE_CHECKING, Final

from moonpool.core.phrases import said
from moonpool.oauth.addresses import same_issuer
from moonpool.oauth.challenge import Challenge, scope_names
from moonpool.oauth.discovery import discover
from moonpool.oauth.errors import GrantRefusedError, LoginNeededError, OAuthError
from moonpool.oauth.grants import refresh, revoke
from moonpool.oauth.login import joined, log_in, log_in_as_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from moonpool.configuration.oauth_settings import OAuthSettings
    from moonpool.oauth.discovery import Discovery
    from moonpool.oauth.login import UserAgent
    from moonpool.oauth.stored_logins import Login, Logins
    from moonpool.oauth.wire import LoginHttp

RENEWAL_COUNT_MAX: Final = 2
"""How often a request is repeated with another token: once after a refresh, once after a login."""
_EARLY_S: Final = 30.0
_STEP_UP_COUNT_MAX: Final = 8
_REFRESH_S: Final = 60.0
_SEEN_MAX: Final = 30
_log = logging.getLogger(__name__)


class Credentials:
    """Tokens for one server URL."""

    def __init__(
        self,
        server_id: str,
        server_url: str,
        settings: OAuthSettings,
        logins: Logins,
        *,
        agent: UserAgent | None = None,
        on_secrets: Callable[[frozenset[str]], None] | None = None,
        public_only: bool = False,
    ) -> None:
        self.server_url, self._public_only = server_url, public_only
        self._server_id, self._settings, self._logins, self._agent = server_id, settings, logins, agent
        self._on_secrets = on_secrets
        self._login: Login | None = None
        self._loaded = False
        self._task: asyncio.Task[None] | None = None
        self._stepped_up: list[tuple[str, ...]] = []
        self._seen: dict[str, None] = {}

    @property
    def secrets(self) -> frozenset[str]:
        """Current and recently replaced tokens; they are redacted wherever they appear."""
        return frozenset(self._seen)

    async def header(self) -> str | None:
        """The `Authorization` header for a request now; None before the first login. Raises OAuthError."""
        if not self._loaded:
            await self._alone(self._load)
        login = self._login
        if login is not None and self._renewable(login) and _ends_soon(login):
            try:
                await self._alone(lambda: self._refresh_unless_done(login))
            except GrantRefusedError:
                pass  # the server will say what it requires
            except OAuthError:
                if _ends_soon(login, early_s=0):
                    raise
        return None if self._login is None else self._login.header

    async def renew(self, challenge: Challenge, *, used: str | None, attempt: int) -> bool:
        """After the server refused the header `used`: get another one. Returns whether there is one.
        Raises OAuthError.
        """
        while self._task is not None and not self._task.done():  # waiting for a finished task would never yield
            await self._join(self._task)
        if self._login is not None and self._login.header != used:
            return True  # renewed by another call meanwhile
        if challenge.wants_more_scope and not self._may_step_up(challenge):
            return False
        await self._alone(lambda: self._answer(challenge, used, attempt))
        return True

    async def log_in(self, challenge: Challenge, *, scopes: tuple[str, ...] | None = None) -> Login:
        """Log in even if a login is stored; `scopes` are requested in addition to earlier ones. Raises OAuthError."""
        await self._load()
        async with _open_http(self.server_url, public_only=self._public_only) as http:
            found = await self._discover(http, challenge)
            await self._log_in(http, found, more=scopes, reuse_client=False)
        assert self._login is not None
        return self._login

    async def close(self) -> None:
        """Wait for a running refresh, since its answer must not be lost; cancel a running login."""
        task = self._task
        if task is None:
            return
        if self._agent is not None:
            task.cancel()
        await asyncio.wait([task], timeout=_REFRESH_S)

    async def _alone(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run `work` as the only renewal task, or wait for the one that runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(work())
            self._task.add_done_callback(self._ended)
        await self._join(self._task)

    async def _join(self, task: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise OAuthError("the login was given up, because this process is ending") from None
            raise

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None
        if not task.cancelled():
            task.exception()  # waiters have it; perhaps there were none

    async def _load(self) -> None:
        if not self._loaded:
            found = await self._logins.find(self.server_url, self._settings)
            self._loaded = True
            self._have(found)

    def _have(self, login: Login | None) -> None:
        self._login = login
        if login is not None and not login.secrets <= self._seen.keys():
            self._seen = dict.fromkeys([*self._seen, *sorted(login.secrets)][-_SEEN_MAX:])
            if self._on_secrets is not None:
                self._on_secrets(self.secrets)

    async def _answer(self, challenge: Challenge, used: str | None, attempt: int) -> None:
        stored = await self._logins.find(self.server_url, self._settings)
        if stored is not None and stored.header != used:
            self._have(stored)  # another process, such as `moonpool login`, stored it
            return
        login = self._login
        machine = self._settings.is_machine
        if (
            self._agent is None
            and not machine
            and (login is None or not login.tokens.refresh_token or challenge.wants_more_scope)
        ):
            raise self._login_needed(challenge)
        async with _open_http(self.server_url, public_only=self._public_only) as http:
            found = await self._discover(http, challenge)
            moved = login is not None and not same_issuer(login.issuer, found.issuer.issuer)
            if login is not None and not moved and attempt == 0 and not challenge.wants_more_scope and not machine:
                with contextlib.suppress(GrantRefusedError):
                    if login.tokens.refresh_token:
                        await self._refresh_unless_done(login)
                        return
            if self._agent is None and not machine:
                raise self._login_needed(challenge)
            stepping_up = challenge.wants_more_scope
            await self._log_in(http, found, more=challenge.scopes if stepping_up else None, reuse_client=stepping_up)

    async def _discover(self, http: LoginHttp, challenge: Challenge) -> Discovery:
        settings, machine = self._settings, self._settings.is_machine
        if settings.authorization_server or not settings.has_secret:
            wanted = settings.authorization_server
            return await discover(http, self.server_url, challenge, wanted_issuer=wanted, machine=machine)
        pinned = await self._logins.pinned(self.server_url, settings)
        why = (
            f"to which the secret in its configuration was given; where it moved, name the new one as "
            f'"authorization_server" in the "oauth" block of {self._server_id!r}'
        )
        return await discover(http, self.server_url, challenge, wanted_issuer=pinned, why_wanted=why, machine=machine)

    async def _log_in(
        self, http: LoginHttp, found: Discovery, *, more: tuple[str, ...] | None, reuse_client: bool
    ) -> None:
        """A registration that may have caused the refusal is not reused."""
        agent = self._agent
        if agent is None and not self._settings.is_machine:
            raise LoginNeededError("no user is present to log in")
        before = replaced = self._login
        if before is not None and not same_issuer(before.issuer, found.issuer.issuer):
            before = None  # SECURITY: another issuer learns neither the client nor the scopes of the previous one
        granted = scope_names(before.tokens.scope or "") if before is not None and more else None
        configured = scope_names(self._settings.scope) or None
        scopes = joined(granted, more, configured) if more else configured or found.scopes
        if agent is None or self._settings.is_machine:
            await self._pin(found)
            login = await log_in_as_machine(http, found, self._settings, scopes=scopes)
        else:

            async def replace_it() -> None:
                await self._pin(found)
                if replaced is not None:
                    await revoke_quietly(http, replaced)

            known = before.client if before is not None and reuse_client else None
            login = await log_in(
                http, found, agent, self._settings, scopes=scopes, known=known, before_redeeming=replace_it
            )
        self._have(login)
        await self._logins.keep(login)

    async def _pin(self, found: Discovery) -> None:
        if self._settings.has_secret:
            await self._logins.pin(self.server_url, self._settings.client_id, found.issuer.issuer)

    async def _refresh_unless_done(self, login: Login) -> None:
        async with self._logins.renewing(self.server_url):
            stored = await self._logins.find(self.server_url, self._settings)
            if stored is not None and stored.header != login.header and not _ends_soon(stored):
                self._have(stored)
            else:
                await self._refresh(login)

    def _renewable(self, login: Login) -> bool:
        return bool(login.tokens.refresh_token) or self._settings.is_machine

    async def _refresh(self, login: Login) -> None:
        async with _open_http(self.server_url, public_only=self._public_only) as http:
            if self._settings.is_machine:
                found = await self._discover(http, Challenge(scopes=scope_names(login.tokens.scope or "") or None))
                await self._log_in(http, found, more=None, reuse_client=True)
                return
            tokens = await refresh(
                http,
                login.token_endpoint,
                login.client,
                issuer=login.issuer,
                tokens=login.tokens,
                resource=login.resource,
            )
        self._have(login.with_tokens(tokens))
        assert self._login is not None
        await self._logins.keep(self._login)

    def _may_step_up(self, challenge: Challenge) -> bool:
        """Whether these scopes are new, so that a server that keeps refusing granted scopes is not asked for ever."""
        wanted = challenge.scopes or ()
        asked = {scope for scopes in self._stepped_up for scope in scopes}
        if not wanted or set(wanted) <= asked or len(self._stepped_up) >= _STEP_UP_COUNT_MAX:
            return False
        if self._agent is not None or self._settings.is_machine:
            self._stepped_up.append(wanted)
            _log.warning(
                "server %r asks for a login with more scopes: %s", self._server_id, said(" ".join(wanted), 200)
            )
        return True

    def _login_needed(self, challenge: Challenge) -> LoginNeededError:
        name = shlex.quote(self._server_id)
        if challenge.wants_more_scope:
            # SECURITY: the server chose the string, and a person may paste it into a shell. Characters that could end
            # the quotes are left out.
            scopes = " ".join(scope for scope in challenge.scopes or () if "'" not in scope)[:300]
            return LoginNeededError(
                f"needs more permission than was granted; run `moonpool login {name} --scope '{scopes}'`"
            )
        return LoginNeededError(f"needs a login; run `moonpool login {name}`")


async def revoke_quietly(http: LoginHttp, login: Login) -> str:
    """Revoke a login at its issuer if it supports that; returns why that failed, or an empty string."""
    if not login.revocation_endpoint:
        return ""
    try:
        await revoke(http, login.revocation_endpoint, login.client, issuer=login.issuer, tokens=login.tokens)
    except OAuthError as exc:
        return str(exc)
    return ""


def _open_http(server_url: str, *, public_only: bool) -> AbstractAsyncContextManager[LoginHttp]:
    from moonpool.oauth.wire import open_login_http  # noqa: PLC0415  imports an HTTP client; only for logins

    return open_login_http(server_url, public_only=public_only)


def _ends_soon(login: Login, *, early_s: float = _EARLY_S) -> bool:
    ends = login.tokens.expires_at
    return ends is not None and ends - time.time() < early_s
