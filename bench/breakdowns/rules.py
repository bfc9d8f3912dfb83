"""What judging a call costs at its most: 200 rules, labels, budgets, and a question that an approval grant settles."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.bootstrap.caller_grants import local_principal
from moonpool.features.approvals.model import Answerer, ApprovalRequest
from moonpool.features.approvals.service import GrantTerms

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
    asked = ApprovalRequest(
        request_id="bench", run_id="run_bench", principal=local_principal(), server_id="bench", tool_name=tool,
        arguments="{}", arguments_digest="sha256:bench", reason="bench", rule_id="last",
        tool_digest=definition.digest, server_digest=app.caller_grant.servers["bench"].digest,
    )  # fmt: skip
    terms = GrantTerms(seconds=86_400, any_arguments=True)
    await asyncio.to_thread(app.approvals.give, asked, Answerer(name="bench", person=True), terms)
