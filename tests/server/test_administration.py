"""Administration over HTTP: who may do what, of which organisation, and what goes on record."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.bootstrap import database
from moonpool.bootstrap.admission import Admitted
from moonpool.bootstrap.database import open_service_data
from moonpool.configuration.servers import parse_config
from moonpool.features.keys.service import Keys
from moonpool.features.plans.model import Effect, EffectKind, Plan
from moonpool.server.http.admission import Bearers
from moonpool.settings import Settings
from server.services import caller, request, serving
from tenants import PathsServer, token_of
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.bootstrap.database import ServiceData
    from server.services import OpenService

pytestmark = pytest.mark.anyio
SECRET = "s3cret-of-acme"
EXECUTE = frozenset({"execute", "files"})
CALLERS = {
    "operator": caller("operator"),
    "baponi-admin": caller("baponi-admin", profile="baponi", scopes=frozenset({"admin", "execute"})),
    "user": caller("user", scopes=EXECUTE),
    "approver": caller("approver", scopes=frozenset({"approve"})),
    "stranger": caller("stranger", "acme"),
}


class Client:
    """Sends as one caller."""

    def __init__(self, service: OpenService, name: str) -> None:
        self._service, self._name = service, name

    async def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's body, of an answer that is a success."""
        answer = await self.send(method, path, body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self._name}"}
        more = {} if body is None else {"json": body}
        return await self._service.http.request(method, f"/v1{path}", headers=headers, **more)

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        answer = await self.send(method, path, body)
        assert SECRET not in answer.text
        return answer.status_code, answer.json()["error"]["code"]


@asynccontextmanager
async def administered(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> AsyncGenerator[tuple[OpenService, ServiceData]]:
    """A service with the organisations default and acme, whether this machine keeps their sandboxes apart or not."""
    monkeypatch.setattr(database, "serves_several_tenants", lambda: True)
    async with open_service_data(Settings.load({}), folder, {}) as data:
        for organisation in ("default", "acme"):
            await data.organisations.ensure(organisation)
        admitted = Admitted(admission=Bearers([]), servers=data.servers, consents=data.consents, opened=data)
        async with serving(CALLERS, state=folder, admitted=admitted, environment="base", **more) as service:
            yield service, data


EVERYTHING = [
    ("GET", "/admin/keys", None), ("POST", "/admin/keys", {}), ("DELETE", "/admin/keys/x", None),
    ("PUT", "/admin/keys/x/limits", {}),
    ("GET", "/admin/sandboxes", None), ("POST", "/admin/sandboxes", {"name": "data"}),
    ("GET", "/admin/sandboxes/x", None), ("PATCH", "/admin/sandboxes/x", {}), ("DELETE", "/admin/sandboxes/x", None),
    ("GET", "/admin/tools", None), ("POST", "/admin/tools", {"tool": "Read", "enabled": False}),
    ("GET", "/admin/policy", None), ("PUT", "/admin/policy", {"text": "version = 1"}),
    ("DELETE", "/admin/policy", None),
    ("GET", "/audit", None),
    ("GET", "/admin/organisations", None), ("POST", "/admin/organisations", {"id": "new"}),
    ("PUT", "/admin/organisations/acme/limits", {}), ("POST", "/admin/organisations/acme/disable", None),
    ("POST", "/admin/organisations/acme/enable", None), ("POST", "/admin/organisations/default/disable", None),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.req("J-044")
async def test_who_may_administer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with administered(tmp_path, monkeypatch) as (service, data):
        for method, path, body in EVERYTHING:
            assert await Client(service, "user").refused(method, path, body) == (403, "scope_missing"), path
            unknown = await service.http.request(method, f"/v1{path}", headers={"authorization": "Bearer guessed"})
            assert unknown.status_code == 401
            if "/organisations" in path:
                refused = await Client(service, "stranger").refused(method, path, body)
                assert refused == (403, "operator_only"), path
        assert [one.organisation_id for one in await data.organisations.all()] == ["acme", "default"]
        assert await data.keys.all() == []

        operator = Client(service, "operator")
        listed = (await operator("GET", "/admin/organisations"))["organisations"]
        assert [one["id"] for one in listed] == ["acme", "default"]
        made = await operator("POST", "/admin/organisations", {"id": "new", "limits": {"rate_limit": "5/min"}})
        assert (made["limits"], made["disabled_at"]) == ({"rate_limit": "5/min"}, None)
        assert await operator.refused("POST", "/admin/organisations", {"id": "new"}) == (400, "input_invalid")
        assert await operator.refused("POST", "/admin/organisations/none/disable") == (404, "organisation_unknown")
        assert await operator.refused("POST", "/admin/organisations/default/disable") == (400, "input_invalid")
        await operator("PUT", "/admin/organisations/new/limits", {"quota": "9/day"})
        await operator("POST", "/admin/organisations/new/disable")
        assert not await data.organisations.is_open("new")
        await operator("POST", "/admin/organisations/new/enable")
        assert (await data.organisations.limits_of("new")).said() == {"quota": "9/day"}


@pytest.mark.slow
async def test_keys_are_made_by_administrators_of_their_organisation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with administered(tmp_path, monkeypatch) as (service, data):
        operator, narrow, stranger = (Client(service, one) for one in ("operator", "baponi-admin", "stranger"))
        await operator("POST", "/admin/sandboxes", {"name": "data"})
        wanted = {"scopes": ["execute"], "sandbox": "data", "variables": {"TOKEN": SECRET}, "thread": "work"}
        made = await operator("POST", "/admin/keys", wanted)
        assert set(made) == {"id", "key"}
        verified = await data.keys.verify(made["key"])
        assert verified is not None
        assert (verified.organisation_id, verified.scopes) == ("default", {"execute"})
        assert await data.keys.variables_of(verified) == {"TOKEN": SECRET}
        (listed,) = (await operator("GET", "/admin/keys"))["keys"]
        assert (listed["variables"], listed["thread"], listed["state"]) == (["TOKEN"], "work", "valid")
        assert made["key"] not in json.dumps(listed)

        # Nobody gives what they lack, or names what is another's.
        assert await narrow.refused("POST", "/admin/keys", {"scopes": ["approve"]}) == (403, "scope_missing")
        assert await narrow.refused("POST", "/admin/keys", {"scopes": ["execute"]}) == (403, "profile_forbids")
        assert await operator.refused("POST", "/admin/keys", {"profile": "none"}) == (400, "profile_unknown")
        assert await operator.refused("POST", "/admin/keys", {"scopes": ["root"]}) == (400, "input_invalid")
        assert await operator.refused("POST", "/admin/keys", {"organisation": "acme"}) == (400, "input_invalid")
        assert await stranger.refused("POST", "/admin/keys", {"sandbox": "data"}) == (404, "configuration_unknown")
        reserved = {"variables": {"PATH": SECRET}}
        assert await operator.refused("POST", "/admin/keys", reserved) == (400, "input_invalid")
        for method, path, body in (
            ("DELETE", f"/admin/keys/{made['id']}", None),
            ("PUT", f"/admin/keys/{made['id']}/limits", {"quota": "none"}),
        ):
            foreign = await stranger.send(method, path, body)
            guessed = await stranger.send(method, path.replace(made["id"], "0" * 16), body)
            assert foreign.status_code == guessed.status_code == 404
            assert foreign.text.replace(made["id"], "0" * 16) == guessed.text
        assert (await stranger("GET", "/admin/keys"))["keys"] == []

        await operator("PUT", f"/admin/keys/{made['id']}/limits", {"rate_limit": "5/min"})
        assert (await operator("GET", "/admin/keys"))["keys"][0]["limits"] == {"rate_limit": "5/min"}
        await operator("DELETE", f"/admin/keys/{made['id']}")
        await operator("DELETE", f"/admin/keys/{made['id']}")
        assert await Keys(data.database).verify(made["key"]) is None

        records = (await operator("GET", "/audit"))["records"]
        actions = [one["record"]["action"] for one in records if one["record"]["kind"] == "administration"]
        assert actions == ["key_revoked", "key_limited", "key_created", "sandbox_created"]
        assert {one["record"]["principal"] for one in records} == {"key:operator"}
        await secret_is_nowhere(tmp_path)


@pytest.mark.slow
async def test_sandbox_configurations_are_an_organisations_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with administered(tmp_path, monkeypatch) as (service, _):
        operator, stranger = Client(service, "operator"), Client(service, "stranger")
        await operator("POST", "/volumes", {"slug": "models"})
        made = await operator(
            "POST", "/admin/sandboxes",
            {"name": "data", "variables": {"TOKEN": SECRET, "B": "1"}, "network": ["example.com"], "storage": True,
             "volumes": [{"slug": "models"}], "default": True, "timeout_s": 7},
        )  # fmt: skip
        assert (made["variables"], made["volumes"]) == (["B", "TOKEN"], [{"slug": "models", "writable": False}])
        assert await operator("GET", "/admin/sandboxes/data") == made
        assert await operator("GET", "/admin/sandboxes") == {"sandboxes": [made]}
        caller_ = CALLERS["user"]
        assert (await service.service.configured.configuration_of(caller_)).variables == {"TOKEN": SECRET, "B": "1"}

        change = {"variables": {"B": None, "C": "3"}, "network": None, "cpu_cores": 0.5}
        changed = await operator("PATCH", "/admin/sandboxes/data", change)
        assert changed == {**made, "variables": ["C", "TOKEN"], "network": None, "cpu_cores": 0.5}
        found = await service.service.configured.configuration_of(caller_)
        assert (found.variables, found.timeout_s) == ({"TOKEN": SECRET, "C": "3"}, 7)

        for body, expected in (
            ({"name": "data"}, (409, "configuration_conflict")),
            ({"name": "B"}, (400, "input_invalid")),
            ({"name": "b", "memory_bytes": 2**52}, (400, "input_invalid")),
            ({"name": "b", "timeout_s": 3601}, (400, "input_invalid")),
            ({"name": "b", "language": "ruby"}, (400, "input_invalid")),
            ({"name": "b", "variables": {"LD_PRELOAD": "x"}}, (400, "input_invalid")),
            ({"name": "b", "network": ["localhost"]}, (400, "network_rule_invalid")),
            ({"name": "b", "volumes": [{"slug": "../x"}]}, (400, "input_invalid")),
            ({"name": "b", "volumes": [{"slug": "none"}]}, (400, "input_invalid")),
            ({"name": "b", "environment": "none"}, (400, "input_invalid")),
            ({"name": "b", "more": 1}, (400, "input_invalid")),
        ):
            assert await operator.refused("POST", "/admin/sandboxes", body) == expected, body
        for method, body in (("GET", None), ("PATCH", {}), ("DELETE", None)):
            assert await stranger.refused(method, "/admin/sandboxes/data", body) == (404, "configuration_unknown")

        key = await operator("POST", "/admin/keys", {"sandbox": "data"})
        assert await operator.refused("DELETE", "/admin/sandboxes/data") == (409, "configuration_conflict")
        await operator("DELETE", f"/admin/keys/{key['id']}")
        await operator("DELETE", "/admin/sandboxes/data")
        assert await operator("GET", "/admin/sandboxes") == {"sandboxes": []}
        await secret_is_nowhere(tmp_path)


@pytest.mark.slow
async def test_an_organisations_own_rules_and_switches_only_make_things_stricter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PathsServer(read_only=True).serving() as server:
        headers = {"Authorization": f"Bearer {token_of('x')}"}
        entry = {"url": f"{server.base}/x/mcp", "headers": headers, "moonpool": {"trusted": True, "expose": "both"}}
        config = parse_config(json.dumps({"mcpServers": {"crm": entry}}).encode(), source="test", environ={})
        async with administered(tmp_path, monkeypatch, config=config) as (service, _):
            operator, user = Client(service, "operator"), Client(service, "user")

            async def seen() -> list[str]:
                return [one["path"] for one in (await user("GET", "/catalog?query=only"))["tools"]]

            tools = await seen()
            assert len(tools) == 1
            assert await seen() == [one["path"] for one in (await user("GET", "/catalog?server=crm"))["tools"]]
            assert await user.refused("GET", "/catalog?server=none") == (404, "not_in_catalog")

            # A client that has its tools already is denied, too.
            session = await service.session(path="/mcp/direct", authorization="Bearer user")

            async def called() -> bool:
                message = request("tools/call", {"name": "only_x", "arguments": {}})
                answer = await service.post(message, path="/mcp/direct", accept="application/json", **session)
                result = answer.json()["result"]
                assert result.get("isError", False) == ("PolicyDenied" in json.dumps(result)), result
                return not result.get("isError", False)

            assert await called()
            deny = 'version = 1\n[[rule]]\nid = "no-crm"\nverdict = "deny"\nserver = "crm"\n'
            for text in (deny.replace('"deny"', '"allow"'), 'version = 1\ndefault = "allow"', "version = 2", "\0"):
                assert await operator.refused("PUT", "/admin/policy", {"text": text}) == (400, "policy_refused"), text
            await operator("PUT", "/admin/policy", {"text": deny})
            told = await operator("GET", "/admin/policy")
            assert (told["own"]["text"], told["own"]["set_by"]) == (deny, "key:operator")
            grants = (await service.service.organisations.get("default")).tenant.caller_grants
            await until(lambda: bool(grants.own_layers))
            assert await seen() == []
            assert not await called()
            assert "organisation:no-crm" in json.dumps((await operator("GET", "/admin/policy"))["layers"])
            await operator("DELETE", "/admin/policy")
            await until(lambda: not grants.own_layers)
            assert await seen() == tools
            assert await called()

            await operator("POST", "/admin/tools", {"tool": "crm.only_x", "enabled": False})
            assert await seen() == []
            await until(lambda: bool(grants.own_layers))
            assert not await called()
            assert server.calls == [("x", "only_x")] * 2
            assert [one["tool"] for one in (await operator("GET", "/admin/tools"))["switched_off"]] == ["crm.only_x"]
            assert (await Client(service, "stranger")("GET", "/admin/tools"))["switched_off"] == []
            assert await service.service.switches.disabled_tools("default") == {"crm.only_x"}
            await operator("POST", "/admin/tools", {"tool": "sandbox_execute", "enabled": False})
            refused = await operator.send("POST", "/sandbox/execute", {"code": "print(1)"})
            assert (refused.status_code, refused.json()) == (403, {
                "error": "forbidden",
                "message": "code execution is switched off for your organisation; an administrator can switch it on",
            })  # fmt: skip
            await operator("POST", "/admin/tools", {"tool": "sandbox_execute", "enabled": True})
            await operator("POST", "/admin/tools", {"tool": "crm.only_x", "enabled": True})
            await until(lambda: not grants.own_layers)
            assert await seen() == tools


@pytest.mark.slow
async def test_records_are_read_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with administered(tmp_path, monkeypatch) as (service, _):
        operator = Client(service, "operator")
        assert (await Client(service, "stranger")("GET", "/audit"))["records"] == []
        for number in range(5):
            await operator("POST", "/admin/sandboxes", {"name": f"n{number}"})
        whole = await operator("GET", "/audit")
        assert [one["record"]["subject"] for one in whole["records"]] == ["n4", "n3", "n2", "n1", "n0"]
        pages, before = list[Any](), ""
        while True:
            page = await operator("GET", f"/audit?limit=2{before}")
            pages += page["records"]
            if page["before"] is None:
                break
            before = f"&before={page['before']}"
        assert pages == whole["records"]
        for wrong in ("limit=0", "limit=1001", "before=0", "more=1"):
            assert await operator.refused("GET", f"/audit?{wrong}") == (400, "input_invalid")


@pytest.mark.slow
async def test_a_plan_is_answered_by_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with administered(tmp_path, monkeypatch) as (service, _):
        tenant = (await service.service.organisations.get("default")).tenant
        assert tenant.runtime.plans is not None
        ids = [f"plan_{number:032x}" for number in range(3)]
        for plan_id in ids:
            await asyncio.to_thread(tenant.runtime.plans.make, planned(plan_id))
        user, approver, stranger = (Client(service, one) for one in ("user", "approver", "stranger"))
        (first, *_) = (await approver("GET", "/plans"))["plans"]
        assert (first["id"], first["principal"], first["state"]) == (ids[0], "key:user", "waiting")
        assert await user.refused("GET", "/plans") == (403, "scope_missing")
        assert (await stranger("GET", "/plans"))["plans"] == []

        yes, no = {"approve": True}, {"approve": False}
        assert await user.refused("POST", f"/plans/{ids[0]}", yes) == (403, "self_approval")
        assert await stranger.refused("POST", f"/plans/{ids[0]}", yes) == (409, "plan_unusable")
        assert await approver.refused("POST", "/plans/plan_none", yes) == (409, "plan_unusable")
        await approver("POST", f"/plans/{ids[0]}", yes)
        await user("POST", f"/plans/{ids[1]}", no)
        await approver("POST", f"/plans/{ids[2]}", no)
        states = {one.plan.plan_id: str(one.state) for one in await asyncio.to_thread(tenant.runtime.plans.plans)}
        assert states == {ids[0]: "approved", ids[1]: "denied", ids[2]: "denied"}
        assert await approver.refused("POST", f"/plans/{ids[1]}", yes) == (409, "plan_unusable")


def planned(plan_id: str) -> Plan:
    """A plan that cannot be approved by its being empty: it has a call."""
    call = Effect(
        number=1, kind=EffectKind.CALL, server_id="crm", tool_name="write", tool_digest="", arguments="{}",
        arguments_digest="", verdict="ask", rule_id="default", reason="", of_the_moment=False, destructive=False,
        placeholder="schema",
    )  # fmt: skip
    return Plan(
        plan_id=plan_id, run_id="run_1", principal="key:user", session_id="", language="python", code_digest="sha256:1",
        manifest_digest="", policy_digest="", effects=(call,), made_at=0.0, expires_at=0.0,
    )  # fmt: skip


async def test_without_authentication_everybody_has_storage_and_nothing_is_managed() -> None:
    async with serving(environment="base") as service:
        found = await service.service.configured.configuration_of(replace(CALLERS["user"]))
        assert found.has_storage
        assert await service.service.switches.disabled_tools("default") == frozenset()
        assert (await service.http.get("/v1/admin/keys")).status_code == 404
        assert (await service.http.get("/v1/catalog")).json() == {"tools": []}


async def secret_is_nowhere(folder: Path) -> None:
    """Not in the database, a journal or any other file."""
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert SECRET.encode() not in written
