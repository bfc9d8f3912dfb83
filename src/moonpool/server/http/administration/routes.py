"""What an organisation's administrators manage: keys, sandbox configurations, tools, rules; and what they read.

SECURITY: everything is of the caller's own organisation. A key gets no scope that its maker lacks, and if its maker is
for one profile only, it is for the same.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET
from starlette.responses import Response

from moonpool.features.caller_limits.model import CallerLimits
from moonpool.features.keys.model import KeySpec
from moonpool.features.sandbox_configurations.model import SandboxConfiguration, VolumeMount
from moonpool.server.http.administration import messages, serialization
from moonpool.server.http.callers import ScopeError
from moonpool.server.http.sessions.bodies import body_of, json_answer, query_of
from moonpool.server.http.sessions.errors import ProfileForbidsError
from moonpool.server.http.sessions.operations import Operation

if TYPE_CHECKING:
    from starlette.requests import Request

    from moonpool.server.http.administration.base import Administered
    from moonpool.server.http.callers import HttpCaller

_RENAMED: Final = {"storage": "has_storage", "default": "is_default"}


class AdministrationRoutes:
    """The endpoints."""

    def __init__(self, administered: Administered) -> None:
        self._administered = administered

    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        made: dict[str, Any] = {"scope": "admin", "profiles": None}
        return (
            Operation(
                method="GET", path="/admin/keys", name="listKeys", endpoint=self.keys, **made,
                summary="Keys of your organisation, never whole", answer=messages.KeyList,
            ),
            Operation(
                method="POST", path="/admin/keys", name="createKey", endpoint=self.create_key, **made, status=201,
                summary="Make a key; its text is in this answer and nowhere else",
                body=messages.CreateKey, answer=messages.NewKeyBody,
            ),
            Operation(
                method="DELETE", path="/admin/keys/{key_id}", name="revokeKey", endpoint=self.revoke_key, **made,
                summary="Refuse a key from now on, within one second everywhere", status=204,
            ),
            Operation(
                method="PUT", path="/admin/keys/{key_id}/limits", name="limitKey", endpoint=self.limit_key, **made,
                summary="Change what a key may use", body=messages.Limits, status=204,
            ),
            Operation(
                method="GET", path="/admin/sandboxes", name="listSandboxes", endpoint=self.sandboxes, **made,
                summary="Sandbox configurations: what code of your keys runs with", answer=messages.SandboxList,
            ),
            Operation(
                method="POST", path="/admin/sandboxes", name="createSandbox", endpoint=self.create_sandbox, **made,
                summary="Make a sandbox configuration", body=messages.CreateSandbox, answer=messages.SandboxBody,
                status=201,
            ),
            Operation(
                method="GET", path="/admin/sandboxes/{sandbox}", name="getSandbox", endpoint=self.sandbox, **made,
                summary="One sandbox configuration", answer=messages.SandboxBody,
            ),
            Operation(
                method="PATCH", path="/admin/sandboxes/{sandbox}", name="changeSandbox", endpoint=self.change_sandbox,
                **made, summary="Change a sandbox configuration, within one second everywhere",
                body=messages.ChangeSandbox, answer=messages.SandboxBody,
            ),
            Operation(
                method="DELETE", path="/admin/sandboxes/{sandbox}", name="deleteSandbox", status=204, **made,
                endpoint=self.delete_sandbox, summary="Delete a sandbox configuration that no key uses",
            ),
            Operation(
                method="GET", path="/admin/tools", name="listSwitchedOff", endpoint=self.tools, **made,
                summary="Tools that are switched off", answer=messages.SwitchedOffList,
            ),
            Operation(
                method="POST", path="/admin/tools", name="switchTool", endpoint=self.switch_tool, **made, status=204,
                summary="Switch a tool off or on for your organisation", body=messages.SwitchTool,
            ),
            Operation(
                method="GET", path="/admin/policy", name="getPolicy", endpoint=self.policy, **made,
                summary="The rules in force for your organisation", answer=messages.PolicyBody,
            ),
            Operation(
                method="PUT", path="/admin/policy", name="setPolicy", endpoint=self.set_policy, **made, status=204,
                summary="Set your organisation's own rules, which only make the operator's stricter",
                body=messages.SetPolicy,
            ),
            Operation(
                method="DELETE", path="/admin/policy", name="removePolicy", endpoint=self.remove_policy, **made,
                summary="Remove your organisation's own rules", status=204,
            ),
            Operation(
                method="GET", path="/audit", name="readAudit", endpoint=self.audit, **made, query=messages.AuditQuery,
                summary="Records of your organisation, the newest first", answer=messages.AuditPage,
            ),
        )  # fmt: skip

    # --- keys

    async def keys(self, request: Request, caller: HttpCaller) -> Response:
        del request
        now, found = time.time(), await self._administered.keys(caller.organisation)
        return json_answer(messages.KeyList(keys=tuple(serialization.key(one, now) for one in found)))

    async def create_key(self, request: Request, caller: HttpCaller) -> Response:
        wanted = await body_of(request, messages.CreateKey)
        for scope in wanted.scopes:
            if scope not in caller.scopes:
                raise ScopeError(scope)
        if caller.profile is not None and wanted.profile != caller.profile:
            raise ProfileForbidsError(caller.profile)
        if wanted.profile is not None:
            self._administered.check_profile(wanted.profile)
        spec = KeySpec(
            organisation_id=caller.organisation,
            scopes=frozenset(wanted.scopes),
            profile=wanted.profile,
            name=wanted.name,
            lifetime_s=wanted.lifetime_s,
            limits=limits_of(wanted.limits),
            workspace_thread=wanted.thread,
            variables=wanted.variables,
        )
        new = await self._administered.changes(caller.principal).create_key(spec, sandbox=wanted.sandbox)
        return json_answer(messages.NewKeyBody(id=new.stored.key_id, key=new.text), 201)

    async def revoke_key(self, request: Request, caller: HttpCaller) -> Response:
        changes = self._administered.changes(caller.principal)
        await changes.revoke_key(request.path_params["key_id"], of=caller.organisation)
        return Response(status_code=204)

    async def limit_key(self, request: Request, caller: HttpCaller) -> Response:
        limits = limits_of(await body_of(request, messages.Limits))
        changes = self._administered.changes(caller.principal)
        await changes.limit_key(request.path_params["key_id"], limits, of=caller.organisation)
        return Response(status_code=204)

    # --- sandbox configurations

    async def sandboxes(self, request: Request, caller: HttpCaller) -> Response:
        del request
        found = await self._administered.sandboxes(caller.organisation)
        return json_answer(messages.SandboxList(sandboxes=tuple(map(serialization.sandbox, found))))

    async def create_sandbox(self, request: Request, caller: HttpCaller) -> Response:
        asked = await body_of(request, messages.CreateSandbox)
        wanted = SandboxConfiguration(configuration_id="", variables=asked.variables, **_plain(asked))
        made = await self._administered.changes(caller.principal).create_sandbox(caller.organisation, wanted)
        return json_answer(serialization.sandbox(made), 201)

    async def sandbox(self, request: Request, caller: HttpCaller) -> Response:
        found = await self._administered.sandbox(caller.organisation, request.path_params["sandbox"])
        return json_answer(serialization.sandbox(found))

    async def change_sandbox(self, request: Request, caller: HttpCaller) -> Response:
        asked = await body_of(request, messages.ChangeSandbox)
        said = _plain(asked)

        def alter(was: SandboxConfiguration) -> SandboxConfiguration:
            merged = {**was.variables, **asked.variables}
            return replace(was, variables={name: value for name, value in merged.items() if value is not None}, **said)

        changes, name = self._administered.changes(caller.principal), request.path_params["sandbox"]
        return json_answer(serialization.sandbox(await changes.change_sandbox(caller.organisation, name, alter)))

    async def delete_sandbox(self, request: Request, caller: HttpCaller) -> Response:
        changes = self._administered.changes(caller.principal)
        await changes.delete_sandbox(caller.organisation, request.path_params["sandbox"])
        return Response(status_code=204)

    # --- tools and rules

    async def tools(self, request: Request, caller: HttpCaller) -> Response:
        del request
        found = await self._administered.switched_off(caller.organisation)
        return json_answer(messages.SwitchedOffList(switched_off=tuple(map(serialization.switched_off, found))))

    async def switch_tool(self, request: Request, caller: HttpCaller) -> Response:
        asked = await body_of(request, messages.SwitchTool)
        changes = self._administered.changes(caller.principal)
        await changes.switch_tool(caller.organisation, asked.tool, on=asked.enabled)
        return Response(status_code=204)

    async def policy(self, request: Request, caller: HttpCaller) -> Response:
        del request
        own = await self._administered.policy(caller.organisation)
        layers = await self._administered.layers(caller.organisation)
        return json_answer(serialization.policy(layers, own))

    async def set_policy(self, request: Request, caller: HttpCaller) -> Response:
        asked = await body_of(request, messages.SetPolicy)
        await self._administered.changes(caller.principal).set_policy(caller.organisation, asked.text)
        return Response(status_code=204)

    async def remove_policy(self, request: Request, caller: HttpCaller) -> Response:
        del request
        await self._administered.changes(caller.principal).remove_policy(caller.organisation)
        return Response(status_code=204)

    # --- records

    async def audit(self, request: Request, caller: HttpCaller) -> Response:
        asked = query_of(request, messages.AuditQuery)
        rows = await self._administered.audit(caller.organisation, before=asked.before, limit=asked.limit)
        return json_answer(serialization.audit_page(rows))


def limits_of(given: messages.Limits) -> CallerLimits:
    """Raises InputError."""
    return CallerLimits.parse(rate=given.rate_limit, concurrency=given.concurrency, quota=given.quota)


def _plain(asked: messages.CreateSandbox | messages.ChangeSandbox) -> dict[str, Any]:
    """What is said of a configuration, but for its variables. Raises InputError."""
    said: dict[str, Any] = {}
    for name in asked.__struct_fields__:
        value = getattr(asked, name)
        if value is UNSET or name == "variables":
            continue
        if name == "volumes":
            value = tuple(VolumeMount(slug=one.slug, writable=one.writable) for one in value)
        said[_RENAMED.get(name, name)] = value
    return said
