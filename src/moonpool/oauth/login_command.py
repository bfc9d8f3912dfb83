"""Login on a person's request: find out what the server requires, then use `credentials`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.oauth.addresses import check_address
from moonpool.oauth.challenge import bearer_challenge, scope_names
from moonpool.oauth.credentials import Credentials, revoke_quietly
from moonpool.oauth.errors import OAuthError
from moonpool.oauth.wire import open_login_http

if TYPE_CHECKING:
    from moonpool.configuration.servers import ServerConfig
    from moonpool.oauth.challenge import Challenge
    from moonpool.oauth.login import UserAgent
    from moonpool.oauth.stored_logins import Login, Logins


async def enter(server: ServerConfig, logins: Logins, agent: UserAgent, *, scope: str = "") -> Login:
    """Log in to `server` and store the login. Raises OAuthError."""
    if any(name.lower() == "authorization" for name in server.headers):
        raise OAuthError(
            f'server {server.server_id!r} has an "Authorization" header in its configuration, which is used instead of '
            "a login; remove it first"
        )
    if not server.may_log_in:
        raise OAuthError(f'server {server.server_id!r} has "grant": "none" in its configuration; remove it first')
    challenge = await _challenge(server)
    credentials = Credentials(
        server.server_id, server.url, server.oauth, logins, agent=agent, public_only=server.public_only
    )
    return await credentials.log_in(challenge, scopes=scope_names(scope) or None)


async def leave(server: ServerConfig, logins: Logins) -> tuple[int, str]:
    """Forget the logins to `server` and revoke the last one; returns how many there were and why revoking failed."""
    login, problem = await logins.find(server.url, server.oauth), ""
    if login is not None:
        async with open_login_http(server.url, public_only=server.public_only) as http:
            problem = await revoke_quietly(http, login)
    return await logins.forget(server.url), problem


async def _challenge(server: ServerConfig) -> Challenge:
    """The server's challenge to a request without a token; only a ping is sent."""
    url = server.url
    check_address(url, "URL of the server", server_url=url)
    headers = {"accept": "application/json, text/event-stream"}
    async with open_login_http(url, public_only=server.public_only) as http:
        answer = await http.post_json(url, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers)
    return bearer_challenge(answer.challenges)
