"""What callers see of their organisation without a session: tools that they may use, plans that wait for an answer.

SECURITY: a yes to a plan comes from another principal than whose code it is, with the scope `approve`; who made it may
refuse it. To everybody else it does not exist.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.responses import Response

from moonpool.catalog.questions import LIMIT_MAX
from moonpool.catalog.render import one_line
from moonpool.features.plans.model import PlanError, PlanState
from moonpool.server.http.administration import messages, serialization
from moonpool.server.http.sessions import messages as session_messages
from moonpool.server.http.sessions.approvals import answerer_of
from moonpool.server.http.sessions.bodies import body_of, json_answer, query_of
from moonpool.server.http.sessions.errors import SelfApprovalError
from moonpool.server.http.sessions.operations import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from moonpool.core.manifest import ToolDefinition
    from moonpool.features.plans.model import StoredPlan
    from moonpool.server.http.administration.base import Offered
    from moonpool.server.http.callers import HttpCaller


class OfferedRoutes:
    """The endpoints."""

    def __init__(self, offered: Offered) -> None:
        self._offered = offered

    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        return (
            Operation(
                method="GET", path="/catalog", name="listCatalog", endpoint=self.catalog, profiles=None,
                summary="Tools that your code may use, or those that fit a question best",
                query=messages.CatalogQuery, answer=session_messages.ToolList,
            ),
            Operation(
                method="GET", path="/plans", name="listPlans", endpoint=self.plans, scope="approve", profiles=None,
                summary="Plans of your organisation's dry runs that wait for an answer, or are approved and not used",
                answer=messages.PlanList,
            ),
            Operation(
                method="POST", path="/plans/{plan_id}", name="answerPlan", endpoint=self.answer, scope=None,
                summary="Answer a plan: a yes needs the scope approve, and that it is not your own code's",
                profiles=None, body=messages.AnswerPlan, status=204,
            ),
        )  # fmt: skip

    async def catalog(self, request: Request, caller: HttpCaller) -> Response:
        asked = query_of(request, messages.CatalogQuery)
        catalog, may_use = await self._offered.catalog(caller)
        found: Sequence[ToolDefinition] = [
            catalog.find(one.server_id, one.tool_name) for one in catalog.list(asked.server)
        ]
        if asked.query is not None:
            hits = catalog.search([asked.query], server=asked.server, limit=LIMIT_MAX)
            found = [one for hit in hits if (one := _found(found, hit.entry.server_id, hit.entry.tool_name))]
        shown = [tool for tool in found if may_use(tool)][: asked.limit]
        bodies = (
            session_messages.ToolBody(
                server=tool.server_id,
                name=tool.name,
                path=catalog.path(tool),
                description=one_line(tool.description),
            )
            for tool in shown
        )
        return json_answer(session_messages.ToolList(tools=tuple(bodies)))

    async def plans(self, request: Request, caller: HttpCaller) -> Response:
        del request
        found = await self._offered.plans(caller.organisation)
        open_ = [one for one in found if one.state in {PlanState.WAITING, PlanState.APPROVED}]
        return json_answer(messages.PlanList(plans=tuple(map(serialization.plan, open_))))

    async def answer(self, request: Request, caller: HttpCaller) -> Response:
        asked = await body_of(request, messages.AnswerPlan)
        plan_id = request.path_params["plan_id"]
        plan = await self._visible(caller, plan_id)
        if asked.approve and plan.plan.principal == caller.principal:
            raise SelfApprovalError
        if asked.approve:
            caller.require("approve")
        by = replace(answerer_of(caller, asked.by), principal=caller.principal)
        await self._offered.answer_plan(caller.organisation, plan_id, by, approve=asked.approve)
        return Response(status_code=204)

    async def _visible(self, caller: HttpCaller, plan_id: str) -> StoredPlan:
        for one in await self._offered.plans(caller.organisation):
            may_see = "approve" in caller.scopes or one.plan.principal == caller.principal
            if one.plan.plan_id == plan_id and may_see:
                return one
        raise PlanError(f"there is no plan {plan_id[:80]!r}; GET /v1/plans shows those that wait")


def _found(tools: Sequence[ToolDefinition], server_id: str, name: str) -> ToolDefinition | None:
    return next((one for one in tools if (one.server_id, one.name) == (server_id, name)), None)
