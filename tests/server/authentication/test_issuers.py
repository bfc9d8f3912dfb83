"""Tokens of real issuers: what each of them gives out means the same. The fake passes what oidc-provider passes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from moonpool.server.http.authentication.issuer_file import ClaimEntry, IssuerEntry
from moonpool.server.http.authentication.resource import Resource
from moonpool.server.http.authentication.tokens import TokenAuthenticator
from moonpool.server.http.callers import AuthenticationError
from server.authentication.issuers import RESOURCE, SERVICE, is_open, open_fake_issuer, open_oidc_provider

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from server.authentication.issuers import TokenIssuer

pytestmark = pytest.mark.anyio
OTHER = "http://127.0.0.1:8931/other"
ONE_PROFILE = f"{RESOURCE}/direct"


@pytest.fixture(params=["fake", pytest.param("oidc-provider", marks=pytest.mark.slow)])
async def issuer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[TokenIssuer]:
    resources = (RESOURCE, OTHER, ONE_PROFILE)
    opening = open_fake_issuer() if request.param == "fake" else open_oidc_provider(tmp_path, resources=resources)
    async with opening as opened:
        yield opened


@asynccontextmanager
async def opened(issuer: TokenIssuer) -> AsyncGenerator[tuple[TokenAuthenticator, list[float]]]:
    """An authenticator of its tokens, and a clock for its keys that a test may advance."""
    clock = [0.0]
    entry = IssuerEntry(url=issuer.url, organisation=ClaimEntry(claim="org"))
    tokens = TokenAuthenticator([entry], Resource((SERVICE,)), is_open=is_open, keys_clock=lambda: clock[0])
    try:
        yield tokens, clock
    finally:
        await tokens.close()


@pytest.mark.req("E-011", "E-014", "L-003")
async def test_tokens_of_users_and_machines_mean_what_they_are(issuer: TokenIssuer) -> None:
    async with opened(issuer) as (tokens, _):
        machine = await tokens.authenticate(await issuer.machine_token(scope="execute approve"))
        login = await issuer.log_in("alice", scope="execute files")
        user = await tokens.authenticate(login.access)
        limited = await tokens.authenticate(await issuer.machine_token(resource=ONE_PROFILE))
        for refused in (login.identity, await issuer.machine_token(resource=OTHER)):
            with pytest.raises(AuthenticationError):
                await tokens.authenticate(refused)
    assert machine is not None
    assert user is not None
    assert limited is not None
    assert (machine.principal, machine.is_person) == (f"client:{issuer.url}#machine", False)
    assert (machine.organisation, machine.scopes) == ("acme", {"execute", "approve"})
    assert (machine.profile, limited.profile) == (None, "direct")
    assert (user.principal, user.is_person, user.client_id) == (f"user:{issuer.url}#alice", True, "app")
    assert (user.organisation, user.scopes) == ("acme", {"execute", "files"})


async def test_a_replaced_key_is_fetched_and_the_old_one_is_forgotten(issuer: TokenIssuer) -> None:
    async with opened(issuer) as (tokens, clock):
        before = await issuer.machine_token()
        assert await tokens.authenticate(before) is not None
        await issuer.replace_key()
        clock[0] += 60
        assert await tokens.authenticate(await issuer.machine_token()) is not None
        clock[0] += 60
        with pytest.raises(AuthenticationError):
            await tokens.authenticate(before)
