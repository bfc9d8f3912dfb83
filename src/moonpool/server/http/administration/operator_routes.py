"""Organisations, for administrators of the operator's own organisation only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from moonpool.core.errors import Fault, InputError, MoonpoolError
from moonpool.server.http.administration import messages, serialization
from moonpool.server.http.administration.routes import limits_of
from moonpool.server.http.sessions.bodies import body_of, json_answer
from moonpool.server.http.sessions.operations import Operation

if TYPE_CHECKING:
    from starlette.requests import Request

    from moonpool.server.http.administration.base import Administered, Changes
    from moonpool.server.http.callers import HttpCaller


class OperatorOnlyError(MoonpoolError):
    """This is for the operator: an administrator of the organisation `default`. Nothing was done (HTTP 403)."""

    code = "operator_only"
    fault = Fault.CALLER

    def __init__(self, organisation: str) -> None:
        super().__init__(
            f"organisations are the operator's; use an administrator's key of the organisation {organisation}"
        )


class OperatorRoutes:
    """The endpoints."""

    def __init__(self, administered: Administered, operator: str) -> None:
        """`operator` is the id of the operator's organisation."""
        self._administered, self._operator = administered, operator

    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        made: dict[str, Any] = {"scope": "admin", "profiles": None}
        one = "/admin/organisations/{organisation}"
        return (
            Operation(
                method="GET", path="/admin/organisations", name="listOrganisations", endpoint=self.all, **made,
                summary="All organisations, for the operator", answer=messages.OrganisationList,
            ),
            Operation(
                method="POST", path="/admin/organisations", name="createOrganisation", endpoint=self.create, **made,
                summary="Make an organisation, by the operator", body=messages.CreateOrganisation, status=201,
                answer=messages.OrganisationBody,
            ),
            Operation(
                method="PUT", path=f"{one}/limits", name="limitOrganisation", endpoint=self.limit, **made, status=204,
                summary="Change what all callers of an organisation together may use", body=messages.Limits,
            ),
            Operation(
                method="POST", path=f"{one}/disable", name="disableOrganisation", endpoint=self.disable, **made,
                summary="Refuse all credentials of an organisation; nothing of it is removed", status=204,
            ),
            Operation(
                method="POST", path=f"{one}/enable", name="enableOrganisation", endpoint=self.enable, **made,
                summary="Accept an organisation's credentials again", status=204,
            ),
        )  # fmt: skip

    async def all(self, request: Request, caller: HttpCaller) -> Response:
        del request
        self._changes(caller)
        found = await self._administered.organisations()
        return json_answer(messages.OrganisationList(organisations=tuple(map(serialization.organisation, found))))

    async def create(self, request: Request, caller: HttpCaller) -> Response:
        changes = self._changes(caller)
        wanted = await body_of(request, messages.CreateOrganisation)
        await changes.create_organisation(wanted.id, wanted.name, limits_of(wanted.limits))
        (made,) = [one for one in await self._administered.organisations() if one.organisation_id == wanted.id]
        return json_answer(serialization.organisation(made), 201)

    async def limit(self, request: Request, caller: HttpCaller) -> Response:
        changes = self._changes(caller)
        limits = limits_of(await body_of(request, messages.Limits))
        await changes.limit_organisation(request.path_params["organisation"], limits)
        return Response(status_code=204)

    async def disable(self, request: Request, caller: HttpCaller) -> Response:
        changes, organisation = self._changes(caller), request.path_params["organisation"]
        if organisation == self._operator:
            raise InputError("the operator's own organisation stays enabled over HTTP; use `moonpool orgs disable`")
        await changes.disable_organisation(organisation)
        return Response(status_code=204)

    async def enable(self, request: Request, caller: HttpCaller) -> Response:
        await self._changes(caller).enable_organisation(request.path_params["organisation"])
        return Response(status_code=204)

    def _changes(self, caller: HttpCaller) -> Changes:
        """SECURITY: an administrator of another organisation does not even learn which there are."""
        if caller.organisation != self._operator:
            raise OperatorOnlyError(self._operator)
        return self._administered.changes(caller.principal)
