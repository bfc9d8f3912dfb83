"""Plan first, with real sandboxes and a server that writes down what arrives: a rehearsal changes nothing, and the run
under its plan makes the calls that were approved, once, and no other.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest

from apps import DATA, fixture_server, open_app
from moonpool.core.calls import ApprovalState
from moonpool.core.errors import InputError
from moonpool.engine.code_request import CodeRequest
from moonpool.features.approvals.model import Answerer
from moonpool.features.plans.model import PlanError, PlanStoreError
from moonpool.features.plans.service import Plans
from moonpool.features.plans.table import PlanStore
from moonpool.pipeline.approval import AutoApprover, DenyApprover, ScriptedApprover
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path, plans_path

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope
    from moonpool.pipeline.approval import Approver

pytestmark = pytest.mark.anyio
PERSON = Answerer(name="terminal:test", person=True)
NOBODY = DenyApprover()
_INPUT = {"type": "object", "properties": {"title": {"type": "string"}, "n": {"type": "integer"}}}
_OUTPUT = {
    "type": "object",
    "properties": {"tool": {"type": "string"}, "arguments": _INPUT},
    "required": ["tool", "arguments"],
}
TOOLS = [
    {"name": "look", "inputSchema": _INPUT, "annotations": {"readOnlyHint": True}},
    {"name": "create", "inputSchema": _INPUT, "outputSchema": _OUTPUT},
    {"name": "comment", "inputSchema": _INPUT, "outputSchema": _OUTPUT},
    {"name": "delete", "inputSchema": _INPUT, "annotations": {"destructiveHint": True}},
]
CODE = """
import servers.hub as hub
seen = await hub.look(title="now")
made = await hub.create(title="t")
told = await hub.comment(title="about " + made.data["arguments"]["title"], n=seen.data["arguments"].get("n", 3))
result = [made.ok, told.ok, made.data["tool"]]
"""


class Hub:
    """An application over one recording server."""

    def __init__(self, app: Tenant, folder: Path) -> None:
        self.app, self._folder = app, folder

    @property
    def arrived(self) -> list[str]:
        """Names and arguments of the calls that the server was sent."""
        record = self._folder / "record.jsonl"
        lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
        calls = [json.loads(line) for line in lines]
        return [f"{one['tool']} {json.dumps(one['arguments'], sort_keys=True)}" for one in calls]

    @property
    def plans(self) -> Plans:
        assert self.app.runtime.plans is not None
        return self.app.runtime.plans

    async def run(self, code: str = CODE, **request: Any) -> Envelope:
        return await self.app.runtime.run(CodeRequest(code=code.encode(), **request), self.app.caller_grant)

    async def rehearse(self, code: str = CODE, **request: Any) -> Any:
        """The plan of a dry run, as its envelope has it."""
        envelope = await self.run(code, dry_run=True, **request)
        return envelope.extras["plan"]

    async def approved(self, code: str = CODE, **request: Any) -> str:
        """The id of a plan that a person has approved."""
        plan_id = (await self.rehearse(code, **request))["plan_id"]
        await anyio.to_thread.run_sync(self.plans.approve, plan_id, PERSON)
        return plan_id

    async def records(self, run_id: str) -> list[dict[str, Any]]:
        rows = await anyio.to_thread.run_sync(lambda: list(read_rows(journal_path(self.app.data), run_id=run_id)))
        return [row.to_json() for row in rows]


@asynccontextmanager
async def open_hub(
    folder: Path, approver: Approver = NOBODY, tools: list[Any] = TOOLS, **settings: Any
) -> AsyncGenerator[Hub]:
    (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    block = {"trusted": True, **settings.pop("block", {})}
    server = fixture_server("recorder.py", str(folder / "tools.json"), str(folder / "record.jsonl"), **block)
    async with open_app({"hub": server}, approver=approver, **settings) as app:
        yield Hub(app, folder)


@pytest.mark.parametrize("backend", ["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def test_a_rehearsal_sends_only_reads_and_the_approved_run_sends_the_rest_once(
    tmp_path: Path, backend: str
) -> None:
    async with open_hub(tmp_path, backend=backend) as hub:
        rehearsal = await hub.run(dry_run=True)
        sent_by_rehearsal = hub.arrived
        plan: Any = rehearsal.extras["plan"]
        with pytest.raises(PlanError, match="; approve it: moonpool plans approve"):
            await hub.run(plan=plan["plan_id"])
        await anyio.to_thread.run_sync(hub.plans.approve, plan["plan_id"], PERSON)
        real = await hub.run(plan=plan["plan_id"])
        rehearsed = await hub.records(rehearsal.run_id)
        made = await hub.records(real.run_id)
    assert sent_by_rehearsal == ['look {"title": "now"}']
    assert (rehearsal.ok, rehearsal.metrics["dry_run"], rehearsal.metrics["planned_calls"]) == (True, True, 2)
    assert [(one["call"], one.get("depends_on")) for one in plan["effects"]] == [
        ("hub.create", None),
        ("hub.comment", [1]),
    ]
    assert real.data == [True, True, "create"]
    assert real.approval_state is ApprovalState.APPROVED
    assert hub.arrived[2:] == ['create {"title": "t"}', 'comment {"n": 3, "title": "about t"}']
    outcomes = [one for one in rehearsed if one["kind"] == "call_outcome"]
    assert [(one["tool_name"], one["rehearsed"], one["approval"]) for one in outcomes] == [
        ("look", 0, "NOT_REQUIRED"),
        ("create", 1, "NOT_REQUIRED"),
        ("comment", 1, "NOT_REQUIRED"),
    ]
    assert [one["kind"] for one in rehearsed].count("call_intent") == 0
    approver = f"plan:{plan['plan_id']} by terminal:test"
    assert [one["approver"] for one in made if one["kind"] == "call_intent"] == [approver, approver]
    assert made[0]["plan_id"] == plan["plan_id"]


EXCEEDING = {
    "another argument": 'await hub.create(title="other" if REAL else "t")',
    "one call more": 'await hub.create(title="t")\nif REAL: await hub.create(title="t")',
    "another tool": 'await hub.create(title="t") if not REAL else await hub.delete(title="t")',
    "in parallel": ('import asyncio\nawait asyncio.gather(*(hub.create(title="t") for _ in range(4 if REAL else 3)))'),
    "what it catches": (
        "try:\n    await hub.create(title='other' if REAL else 't')\nexcept BaseException: pass\n"
        "while REAL:\n    try:\n        await hub.create(title='t')\n    except BaseException: pass"
    ),
}


@pytest.mark.parametrize("code", EXCEEDING.values(), ids=EXCEEDING.keys())
async def test_the_first_call_that_is_not_in_the_plan_ends_the_execution(tmp_path: Path, code: str) -> None:
    # The same code does something else in the real run: it sees a placeholder instead of what a server answers.
    answered = "(await hub.create(title='probe')).data['arguments']['title']"
    source = f"import servers.hub as hub\nREAL = {answered} == 'probe'\n{code}\nresult = 'went on'"
    async with open_hub(tmp_path) as hub:
        plan_id = await hub.approved(source)
        real = await hub.run(source, plan=plan_id)
    assert real.error is not None
    assert real.error.type == "PlanExceeded"
    assert f"approved plan {plan_id}: " in real.error.message
    assert set(hub.arrived) <= {'create {"title": "probe"}', 'create {"title": "t"}'}
    assert hub.arrived.count('create {"title": "t"}') <= 3


async def test_a_plan_is_used_once_by_its_own_code_language_principal_and_policy(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        plan_id = await hub.approved()
        caller_grant = hub.app.caller_grant
        attempts = [
            (CODE + "#", {}, caller_grant, "other code"),
            (CODE, {"language": "bash"}, caller_grant, "not bash"),
            (CODE, {}, replace(caller_grant, principal="local:mallory"), "there is no plan"),
            (CODE, {}, replace(caller_grant, policy_digest="sha256:other"), "another policy"),
        ]
        for code, more, by, told in attempts:
            with pytest.raises(PlanError, match=told):
                await hub.app.runtime.run(CodeRequest(code=code.encode(), plan=plan_id, **more), by)
        runs = await asyncio.gather(*(hub.run(plan=plan_id) for _ in range(3)), return_exceptions=True)
        with pytest.raises(PlanError, match="it is used"):
            await hub.run(plan=plan_id)
    refused = [one for one in runs if isinstance(one, PlanError | PlanStoreError)]  # or its use is not on record yet
    assert (len(refused), len(runs)) == (2, 3)
    assert hub.arrived.count('create {"title": "t"}') == 1


async def test_a_tool_that_changed_since_the_rehearsal_is_not_in_the_plan(tmp_path: Path) -> None:
    async with open_hub(tmp_path, drift="report") as hub:
        plan_id = await hub.approved()
        changed = [{**tool, "description": "new"} for tool in TOOLS]
        (tmp_path / "tools.json").write_text(json.dumps(changed), encoding="utf-8")
        await hub.app.tool_registry.refresh()
        real = await hub.run(plan=plan_id)
    assert real.error is not None
    assert (real.error.type, "changed the tool" in real.error.message) == ("PlanExceeded", True)
    assert hub.arrived.count('create {"title": "t"}') == 0


async def test_an_expired_or_denied_plan_is_not_used(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        store, now = PlanStore(plans_path(hub.app.data)), [0.0]
        expired, denied = await hub.approved(), (await hub.rehearse())["plan_id"]
        await anyio.to_thread.run_sync(hub.plans.deny, denied, PERSON)
        stored = await anyio.to_thread.run_sync(store.find, expired)
        assert stored is not None
        now[0] = stored.plan.expires_at
        late = Plans(PlanStore(plans_path(hub.app.data), clock=lambda: now[0]), lambda _: None, expiry_s=1.0)
        request = CodeRequest(code=CODE.encode(), plan=expired)
        with pytest.raises(PlanError, match="it is expired"):
            await late.take(request.plan, hub.app.caller_grant, code=request.code, language=request.language)
        with pytest.raises(PlanError, match="it is denied"):
            await hub.run(plan=denied)
    assert [one.split()[0] for one in hub.arrived] == ["look", "look"]


async def test_the_approver_in_force_is_asked_once_about_everything(tmp_path: Path) -> None:
    yes = ScriptedApprover([ApprovalState.APPROVED], approver="terminal:test")
    async with open_hub(tmp_path, yes) as hub:
        plan_id = (await hub.rehearse())["plan_id"]
        asked_by_rehearsal = len(yes.requests)
        real = await hub.run(plan=plan_id)
    assert (asked_by_rehearsal, real.ok, len(yes.requests)) == (0, True, 1)
    lines = yes.requests[0].arguments.split("\n")
    assert [line.split(" ")[1] for line in lines[1:]] == ["hub.create", "hub.comment"]
    assert "in /title: what call 1 returns at /arguments/title" in lines[2]


async def test_a_plan_with_a_call_for_a_person_needs_a_person_and_then_asks_nobody(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('version = 1\n[[rule]]\nid = "p"\ntool = "create"\nverdict = "human_only"\n', encoding="utf-8")
    async with open_hub(tmp_path, AutoApprover(), policy=policy) as hub:
        plan_id = (await hub.rehearse())["plan_id"]
        with pytest.raises(PlanError, match="wants a person"):
            await hub.run(plan=plan_id)
        with pytest.raises(PlanError, match="at a terminal"):
            await anyio.to_thread.run_sync(hub.plans.approve, plan_id, Answerer(name="command:x", person=False))
        await anyio.to_thread.run_sync(hub.plans.approve, plan_id, PERSON)
        real = await hub.run(plan=plan_id)
    assert real.data == [True, True, "create"]


async def test_a_question_for_a_person_that_the_rehearsal_did_not_meet_is_not_answered_by_the_plan(
    tmp_path: Path,
) -> None:
    """What another call returns decides whether it comes up, and a rehearsal has a placeholder in its place."""
    policy = tmp_path / "policy.toml"
    condition = '{ at = "/title", equals = "about t" }'
    rule = f'id = "p"\ntool = "comment"\nverdict = "human_only"\nwhen = [{condition}]'
    policy.write_text(f"version = 1\n[[rule]]\n{rule}\n", encoding="utf-8")
    async with open_hub(tmp_path, AutoApprover(), policy=policy) as hub:
        plan = await hub.rehearse()
        await anyio.to_thread.run_sync(hub.plans.approve, plan["plan_id"], PERSON)
        real = await hub.run(plan=plan["plan_id"])
    assert [one["policy"] for one in plan["effects"] if one["call"] == "hub.comment"] == ["ask"]
    assert real.data == [True, False, "create"]
    assert [one.split()[0] for one in hub.arrived] == ["look", "look", "create"]


async def test_what_policy_denies_stands_in_the_plan_and_stays_denied(tmp_path: Path) -> None:
    code = "import servers.hub as hub\nresult = [(await hub.delete(title='x')).error['type'], (await hub.create()).ok]"
    async with open_hub(tmp_path, block={"deny": ["delete"]}) as hub:
        plan = await hub.rehearse(code)
        await anyio.to_thread.run_sync(hub.plans.approve, plan["plan_id"], PERSON)
        real = await hub.run(code, plan=plan["plan_id"])
    assert [(one["call"], one.get("kind"), one["policy"]) for one in plan["effects"]] == [
        ("hub.delete", "denied", "deny"),
        ("hub.create", None, "ask"),
    ]
    assert real.data == ["PolicyDenied", True]
    assert hub.arrived == ["create {}"]


async def test_budgets_hold_in_the_real_run_and_a_rehearsal_takes_nothing_from_them(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("version = 1\n[budget.key]\ncalls = 2\n", encoding="utf-8")
    code = "import servers.hub as hub\nresult = [(await hub.create(n=n)).ok for n in range(3)]"
    async with open_hub(tmp_path, policy=policy) as hub:
        real = await hub.run(code, plan=await hub.approved(code))
    assert real.data == [True, True, False]


async def test_declared_placeholders_answer_and_must_fit(tmp_path: Path) -> None:
    code = "import servers.hub as hub\nr = await hub.create(title='x')\nresult = r.data if r.ok else r.error"
    fitting = {"tool": "create", "arguments": {"n": 7}}
    async with open_hub(tmp_path) as hub:
        told = await hub.run(code, dry_run=True, placeholders={"hub.c*": fitting})
        wrong = await hub.run(code, dry_run=True, placeholders={"hub.*": {"tool": 1}})
        with pytest.raises(InputError, match="dry run"):
            await hub.run(code, placeholders={"hub.c*": fitting})
    assert told.data == fitting
    assert isinstance(wrong.data, dict)
    assert "declared by 'hub.*' does not fit hub.create" in str(wrong.data["message"])


async def test_a_rehearsal_that_failed_cannot_be_approved(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        plan = await hub.rehearse("import servers.hub as hub\nawait hub.create()\n1 / 0")
        with pytest.raises(PlanError, match="ZeroDivisionError"):
            await anyio.to_thread.run_sync(hub.plans.approve, plan["plan_id"], PERSON)
    assert "ZeroDivisionError" in plan["problem"]


async def test_code_that_only_reads_has_a_plan_that_nobody_needs_to_approve(tmp_path: Path) -> None:
    code = "import servers.hub as hub\nresult = (await hub.look()).ok"
    async with open_hub(tmp_path) as hub:
        plan = await hub.rehearse(code)
        real = await hub.run(code, plan=plan["plan_id"])
    assert (plan["effects"], real.data, real.approval_state) == ([], True, ApprovalState.NOT_REQUIRED)


ATTACK = """
import os, subprocess
import servers.hub as hub
def attempt(path):
    try:
        return open(path, "r+b").read() and "opened"
    except OSError as error:
        return type(error).__name__
def command():
    try:
        return subprocess.run(["moonpool", "plans", "list"], capture_output=True).returncode
    except OSError:
        return 127
made = await hub.create(title="t")
names = {{name for _, folders, files in os.walk("/") for name in (*folders, *files)}}
told = " ".join([*os.environ, *os.environ.values()])
result = [
    [attempt(path) for path in {paths!r}],
    sorted(name for name in names if name.startswith("plans.sqlite3")),
    command() != 0,
    "plan_" in told,
]
"""


@pytest.mark.parametrize("backend", ["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def test_code_finds_no_plan_and_cannot_answer_one(tmp_path: Path, backend: str) -> None:
    path = plans_path(DATA)
    code = ATTACK.format(paths=[str(path), f"/proc/1/root{path}"])
    async with open_hub(tmp_path, backend=backend) as hub:
        envelope = await hub.run(code, dry_run=True)
        plans = await anyio.to_thread.run_sync(partial(hub.plans.find, str(envelope.metrics["plan_id"])))
    attempts, found, refused, told = envelope.data  # type: ignore[misc]
    assert set(attempts) <= {"FileNotFoundError", "PermissionError"}
    assert (found, refused, told, plans.state) == ([], True, False, "waiting")


async def test_arguments_that_nobody_could_read_make_no_plan(tmp_path: Path) -> None:
    code = "import servers.hub as hub\nr = await hub.create(title='x' * 20_000)\nresult = r.error['message']"
    async with open_hub(tmp_path) as hub:
        envelope = await hub.run(code, dry_run=True)
    assert "too long for a person to read" in str(envelope.data)
    assert "too long" in str(envelope.extras["plan"]["problem"])  # type: ignore[index,call-overload]
