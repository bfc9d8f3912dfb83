"""Calls of code that was run by one HTTP call and that wait for approval: who answers them, and until when."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import fixture_server
from moonpool.bootstrap.admission import Admitted
from moonpool.configuration.servers import parse_config
from moonpool.server.http.admission import Everybody
from moonpool.store.database.addresses import database_address
from moonpool.store.database.opening import open_database
from server.sandbox_services import USER, as_caller, begin, cancel, ended
from server.services import caller, serving
from waiting import until_true

if TYPE_CHECKING:
    from pathlib import Path

    from server.services import OpenService

pytestmark = pytest.mark.anyio
ASKING = "from servers.echo import text\nprint(await text(text='hi'))"
SERVERS = {"mcpServers": {"echo": fixture_server("echo.py", ask=["*"])}}
CONFIG = parse_config(json.dumps(SERVERS).encode(), source="test", environ=os.environ)
APPROVES = frozenset({"approve"})
CALLERS = {
    "a": caller("a", scopes=USER | APPROVES),
    "neighbour": caller("neighbour", scopes=USER),
    "approver": caller("approver", scopes=APPROVES),
    **({"elsewhere": caller("approver", "another", scopes=APPROVES)} if os.geteuid() == 0 else {}),
}


async def asked(service: OpenService) -> str:
    """The id of the one call that waits."""
    found: list[Any] = []

    async def waits() -> bool:
        answer = await service.http.get("/v1/approvals", headers=as_caller("approver"))
        found[:] = answer.json()["approvals"]
        return bool(found)

    await until_true(waits)
    [one] = found
    return one["request"]["request_id"]


async def answered(service: OpenService, who: str, request_id: str) -> str:
    """The code of the error, or nothing."""
    given = {"approve": True, "keep_for": "1h"}
    answer = await service.http.post(f"/v1/approvals/{request_id}", json=given, headers=as_caller(who))
    return "" if answer.status_code == 204 else answer.json()["error"]["code"]


@pytest.mark.claim("C-APP-4", "C-TEN-1")
async def test_a_call_is_approved_once_by_somebody_else_while_its_code_waits(tmp_path: Path) -> None:
    async with open_database(database_address("", tmp_path)) as database:
        admitted = Admitted(admission=Everybody(caller("nobody")), database=database)
        async with serving(CALLERS, state=tmp_path, admitted=admitted, config=CONFIG) as service:
            with anyio.fail_after(120):
                cancelled = await begin(service, ASKING)
                late = await asked(service)
                await cancel(service, cancelled)
                await ended(service, cancelled)
                too_late = await answered(service, "approver", late)

                trace_id = await begin(service, ASKING)  # which a grant of the late answer would let through
                request_id = await asked(service)
                refused = {who: await answered(service, who, request_id) for who in CALLERS if who != "approver"}
                taken = [await answered(service, "approver", request_id) for _ in range(2)]
                record = await ended(service, trace_id)

    assert too_late == "approval_not_answerable"
    assert refused == {"a": "self_approval"} | dict.fromkeys(refused.keys() - {"a"}, "approval_not_answerable")
    assert taken == ["", "approval_not_answerable"]
    assert (record["status"], record["stdout"]) == ("success", "hi\n")
