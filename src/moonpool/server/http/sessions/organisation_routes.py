"""What an organisation manages for itself over HTTP: servers of its own, and what its users agreed to.

Of servers only an administrator's credential hears. A consent is a user's, given by a login through a client that the
operator named for it: the token of any other client may be in the hands of the very client that wants the consent.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from starlette.responses import Response

from moonpool.core.audit_records import time_stamp
from moonpool.core.errors import Fault, MoonpoolError
from moonpool.features.servers.model import ServerSpec
from moonpool.server.http.sessions import messages
from moonpool.server.http.sessions.bodies import body_of, json_answer
from moonpool.server.http.sessions.operations import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from moonpool.features.consents.model import Consent
    from moonpool.features.servers.model import OwnServer
    from moonpool.server.http.callers import HttpCaller


class ConsentForbiddenError(MoonpoolError):
    """This credential gives no consents. Nothing was changed."""

    code = "consent_forbidden"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__(
            "consents are given with the login of a user, by a client that the operator named for it "
            "(consent_clients), or by the operator with `moonpool consents`"
        )


class Affairs(Protocol):
    """What organisations manage (`moonpool.bootstrap.organisation_affairs`). Every method raises DatabaseError."""

    async def servers(self, organisation: str, /) -> Sequence[tuple[OwnServer, bool]]:
        """Its own servers, and of each whether its tools are known."""
        ...

    async def add_server(self, organisation: str, spec: ServerSpec, /, *, by: str) -> OwnServer:
        """Raises InputError, SecretStoreError."""
        ...

    async def remove_server(self, organisation: str, server_id: str, /, *, by: str) -> None:
        """Raises InputError."""
        ...

    async def consents(self, caller: HttpCaller, /) -> Sequence[Consent]:
        """Those in force that this user gave."""
        ...

    async def give_consent(self, caller: HttpCaller, client_id: str, server_id: str, /) -> Consent:
        """Raises InputError."""
        ...

    async def withdraw_consent(self, caller: HttpCaller, client_id: str, server_id: str, /) -> None:
        """Whether there was one or not."""
        ...


class OrganisationRoutes:
    """The endpoints."""

    def __init__(self, affairs: Affairs) -> None:
        self._affairs = affairs

    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        return (
            Operation(
                method="GET", path="/servers", name="listServers", endpoint=self.servers, scope="admin",
                summary="Servers that your organisation added", answer=messages.OwnServerList,
            ),
            Operation(
                method="POST", path="/servers", name="addServer", endpoint=self.add_server, scope="admin",
                summary="Add a server of the public internet by its URL, for all of your organisation",
                body=messages.AddServer, answer=messages.OwnServerBody, status=201,
            ),
            Operation(
                method="DELETE", path="/servers/{server}", name="removeServer", endpoint=self.remove_server,
                scope="admin", summary="End the use of a server that your organisation added", status=204,
            ),
            Operation(
                method="GET", path="/consents", name="listConsents", endpoint=self.consents, scope=None,
                summary="What you agreed to: which client may use which login", answer=messages.ConsentList,
            ),
            Operation(
                method="POST", path="/consents", name="giveConsent", endpoint=self.give, scope=None,
                summary="Agree that a client uses a server to which Moonpool is logged in, when it calls for you",
                body=messages.ConsentTo, answer=messages.ConsentBody, status=201,
            ),
            Operation(
                method="POST", path="/consents/withdraw", name="withdrawConsent", endpoint=self.withdraw, scope=None,
                summary="Agree no longer", body=messages.ConsentTo, status=204,
            ),
        )  # fmt: skip

    async def servers(self, request: Request, caller: HttpCaller) -> Response:
        del request
        found = await self._affairs.servers(caller.organisation)
        return json_answer(messages.OwnServerList(servers=tuple(_server(one, is_listed) for one, is_listed in found)))

    async def add_server(self, request: Request, caller: HttpCaller) -> Response:
        wanted = await body_of(request, messages.AddServer)
        spec = ServerSpec(server_id=wanted.name, url=wanted.url, headers=wanted.headers, expose=wanted.expose)
        added = await self._affairs.add_server(caller.organisation, spec, by=caller.principal)
        return json_answer(_server(added, is_listed=False), 201)

    async def remove_server(self, request: Request, caller: HttpCaller) -> Response:
        await self._affairs.remove_server(caller.organisation, request.path_params["server"], by=caller.principal)
        return Response(status_code=204)

    async def consents(self, request: Request, caller: HttpCaller) -> Response:
        del request
        _require_user(caller)
        found = await self._affairs.consents(caller)
        return json_answer(messages.ConsentList(consents=tuple(map(_consent, found))))

    async def give(self, request: Request, caller: HttpCaller) -> Response:
        wanted = await body_of(request, messages.ConsentTo)
        _require_user(caller)
        return json_answer(_consent(await self._affairs.give_consent(caller, wanted.client, wanted.server)), 201)

    async def withdraw(self, request: Request, caller: HttpCaller) -> Response:
        wanted = await body_of(request, messages.ConsentTo)
        _require_user(caller)
        await self._affairs.withdraw_consent(caller, wanted.client, wanted.server)
        return Response(status_code=204)


def _require_user(caller: HttpCaller) -> None:
    if not caller.gives_consents:
        raise ConsentForbiddenError


def _server(one: OwnServer, is_listed: bool) -> messages.OwnServerBody:
    return messages.OwnServerBody(
        name=one.server_id,
        url=one.url,
        headers=one.header_names,
        expose=one.expose,
        added_by=one.added_by,
        added_at=_time(one.added_at),
        is_listed=is_listed,
    )


def _consent(one: Consent) -> messages.ConsentBody:
    return messages.ConsentBody(client=one.client_id, server=one.server_id, given_at=_time(one.given_at))


def _time(seconds: float) -> str:
    return time_stamp(datetime.fromtimestamp(seconds, UTC))
