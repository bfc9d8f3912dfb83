"""What judging a call costs at its most: 200 rules, labels, budgets, and a question that an approval grant settles."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from moonpool.bootstrap.caller_grants import local_principal
from moonpool.features.approvals.model import ApprovalGrant, QueuedRequest
from moonpool.features.approvals.table import ApprovalStore
from moonpool.store.paths import approvals_path

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.bootstrap import Tenant

RULE_COUNT = 200
_RULE = '[[rule]]\nid = "r{n}"\nverdict = "deny"\nserver = "b*"\ntool = "*_{n}"\n[[rule.when]]\nat = "/n"\nmin = {n}\n'
_REST = """
[[rule]]
id = "last"
verdict = "ask"
server = "bench"

[[rule]]
id = "flow"
verdict = "ask"
after = "untrusted"
does = "sends_out"

[[label]]
server = "bench"
returns = ["private", "untrusted"]
does = ["sends_out"]

[budget.session]
calls = 1_000_000

[budget.key]
calls = 1_000_000
"""


def write_policy(folder: Path) -> Path:
    """200 rules, of which the last one matches."""
    path = folder / "policy.toml"
    rules = "\n".join(_RULE.format(n=n) for n in range(RULE_COUNT - 2))
    path.write_text(f"version = 1\n{rules}{_REST}", encoding="utf-8")
    return path


async def answer_for_good(app: Tenant, tool: str) -> None:
    """Keep a yes to every further call of the tool."""
    definition = (await app.tool_registry.snapshot()).manifest.find("bench", tool)
    assert definition is not None, tool
    now = time.time()
    principal, digest = local_principal(), definition.digest
    asked = QueuedRequest(
        principal=principal, server_id="bench", tool_name=tool, tool_digest=digest, request_id="bench",
        run_id="run_bench", session_id="", arguments="{}", arguments_digest="sha256:bench", reason="bench",
        rule_id="last", human_only=False, asked_at=now, expires_at=now + 600,
    )  # fmt: skip
    given = ApprovalGrant(
        principal=principal, server_id="bench", tool_name=tool, tool_digest=digest, answer_id="bench", where=(),
        arguments_digest="", server_digest=app.caller_grant.servers["bench"].digest, server_address="",
        human_only=False, given_by="bench", given_at=now, expires_at=now + 86_400, request_id="bench",
    )  # fmt: skip
    await asyncio.to_thread(_keep, app, asked, given)


def _keep(app: Tenant, asked: QueuedRequest, given: ApprovalGrant) -> None:
    store = ApprovalStore(approvals_path(app.data), is_gone=lambda _mark: False)
    try:
        store.put(asked)
        store.answer(asked.request_id, asked.arguments_digest, approved=True, approver="bench", grant=given)
    finally:
        store.close()
