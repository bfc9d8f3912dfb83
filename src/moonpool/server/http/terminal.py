"""Requests of commands of the service's own user, through its socket.

SECURITY: whoever reaches the socket is this user or root, as the kernel says (`store.service_socket`), and any program
of this user may be that, one that a model runs included. Such a caller has the sessions that were opened through the
socket and no others, may answer what their code asks, as at any terminal of this user, and has no scope `approve`: it
sees and answers no question of another caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.version import VERSION
from moonpool.server.http.admission import Everybody
from moonpool.server.http.callers import HttpCaller
from moonpool.server.http.request_limits import Names
from moonpool.store.service_socket import is_admitted, peer_of

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAMES: Final = Names(hosts=frozenset({"moonpool"}), origins=frozenset())
"""Clients of the socket call the service so."""


def is_own_user(connection: socket.socket) -> bool:
    """SECURITY: fails closed: an error of the kernel is an unknown peer."""
    try:
        return is_admitted(peer_of(connection)[1])
    except OSError:
        return False


def terminal_admission(organisation: str, principal: str) -> Everybody:
    """Admits who came through the socket as this principal."""
    return Everybody(
        HttpCaller(
            organisation=organisation,
            principal=principal,
            scopes=frozenset({"execute", "files"}),
            is_terminal=True,
        )
    )


def naming_version(application: ASGIApp, *, ends_unused: bool) -> ASGIApp:
    """Have answers say which Moonpool this is, and whether it ends when nobody uses it."""
    header = (b"server", f"moonpool/{VERSION}{' (ends unused)' if ends_unused else ''}".encode())

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], header]}
            await send(message)

        await application(scope, receive, with_version)

    return named
