"""What can go wrong while logging in."""

from __future__ import annotations

from moonpool.core.errors import Fault, MoonpoolError


class OAuthError(MoonpoolError):
    """A server or its authorization server failed in a login or cannot be trusted with it."""

    code = "login_failed"
    fault = Fault.UPSTREAM


class GrantRefusedError(OAuthError):
    """The authorization server refuses a refresh token or a client as invalid."""

    code = "login_grant_refused"


class LoginNeededError(OAuthError):
    """A person must log in first; nothing was sent to the server that needs a login."""

    code = "login_needed"
    fault = Fault.HOST
