"""Named sessions at this user's service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from moonpool.cli.service_start import SessionError
from moonpool.server.http.sessions.messages import SESSION_NAME_PATTERN, SessionAnswer, SessionList

if TYPE_CHECKING:
    from moonpool.sdk.remote.connection import Connection

_NAME: Final = re.compile(SESSION_NAME_PATTERN.removesuffix("$"))


def checked_name(name: str) -> str:
    """`name` if it is valid for a session. Raises SessionError."""
    if not _NAME.fullmatch(name):
        raise SessionError(
            f"{name[:80]!r} cannot name a session; use up to 64 letters, digits, dots, dashes and underscores"
        )
    return name


async def named_sessions(connection: Connection) -> list[SessionAnswer]:
    """Those that have a name. Raises MoonpoolError."""
    found = await connection.get("sessions", SessionList, {})
    return sorted((one for one in found.sessions if one.name), key=lambda one: one.name)


async def named_session(connection: Connection, name: str) -> SessionAnswer | None:
    """The one of this name. Raises MoonpoolError."""
    return next((one for one in await named_sessions(connection) if one.name == name), None)
