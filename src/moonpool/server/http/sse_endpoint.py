"""The transport of revision 2024-11-05: `GET /sse` is the stream, `POST /message?sessionId=` takes messages.

Its successor is Streamable HTTP at `/mcp`; this is for clients that have nothing else. All revisions that have a
handshake are spoken here.

SECURITY: the id of a stream counts together with the caller who opened it; to anybody else it is unknown.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from moonpool.server.http.principal_servers import SSE_CONNECTIONS_MAX, ServiceBusyError
from moonpool.server.http.responses import EventResponse, rpc_error
from moonpool.server.http.sse_connection import SseConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.server.http.principal_servers import PrincipalServer

MESSAGE_PATH: Final = "/message"
_log = logging.getLogger(__name__)


def open_stream(servers: PrincipalServer, path: str) -> Response:
    """Answer `GET /sse`. Raises ServiceBusyError."""
    open_now = servers.sse_connections
    if len(open_now) >= SSE_CONNECTIONS_MAX:
        raise ServiceBusyError(f"{SSE_CONNECTIONS_MAX} streams of this caller are open; close some")
    connection = SseConnection(servers.make_server())
    open_now[connection.session_id] = connection
    _log.info("a client uses HTTP+SSE, which is deprecated; its successor is /mcp")
    return EventResponse(connection.frames(path), lambda: servers.end_sse(connection))


async def take_message(
    servers: PrincipalServer, session_id: str | None, value: object, ended: Callable[[], None]
) -> Response:
    """Answer `POST /message`. `ended` is called when nothing of it runs any more."""
    if not session_id:
        ended()
        return rpc_error(400, "sessionId is missing; post to the address that the stream's first event names")
    connection = servers.sse_connections.get(session_id)
    if connection is None or connection.left:
        ended()
        return rpc_error(
            404, "there is no such session here: its stream has ended, or was never open; GET /sse opens another"
        )
    await connection.take(value, ended)
    return Response(status_code=202)
