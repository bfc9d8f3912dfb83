"""Tenants of one engine: none sees another's tool, call, approval, secret, file or record; each comes and goes."""

from __future__ import annotations

import asyncio
import json
import os
import re
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import anyio.lowlevel
import msgspec
import pytest

from apps import fresh_data
from moonpool.bootstrap import open_engine, open_tenant
from moonpool.core.calls import ApprovalState
from moonpool.core.errors import InputError
from moonpool.core.shares import Level, Shares
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.files.errors import FileTransferError
from moonpool.features.approvals.model import Answerer, ApprovalAnswerError, ApprovalRequest
from moonpool.features.approvals.queue_approver import QueueApprover
from moonpool.features.approvals.table import ApprovalStore
from moonpool.features.plans.model import PlanError
from moonpool.network.rules import NetworkRuleError, NetworkRules, parse_domain
from moonpool.pipeline.approval import ApprovalBounds, LiveApprovals
from moonpool.policy import Budget, Layer, LayerName, Measure, Rule, Scope, Verdict
from moonpool.sandboxes.base import SandboxStartError
from moonpool.settings import Settings
from moonpool.store.journal_reading import read_rows, verify_file
from moonpool.store.paths import approvals_path, journal_path, tenant_dir
from moonpool.store.process_marks import is_gone, own_mark
from run_folder import run_folder
from tenants import PathsServer, enter_tenant, open_engine_of_fakes, token_of
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.bootstrap import Engine, Tenant
    from moonpool.core.envelope import Envelope
    from moonpool.features.approvals.model import ApprovalAnswer, QueuedRequest

pytestmark = pytest.mark.anyio


_RUN_ID = re.compile(rb"run_[0-9a-f]{32}")


class Silent:
    """An approver that never answers."""

    together: ClassVar[bool] = True

    async def ask(self, request: ApprovalRequest) -> NoReturn:
        del request
        await asyncio.Event().wait()
        raise AssertionError


ALICE = Answerer(name="terminal:alice", person=True)


async def calls(tenant: Tenant, *tools: str, **request: Any) -> Envelope:
    return await tenant.runtime.run(CodeRequest(code=json.dumps(tools).encode(), **request), tenant.caller_grant)


async def asking(tenant: Tenant) -> tuple[asyncio.Task[Envelope], list[QueuedRequest]]:
    """A run whose call waits for approval, and what it asks."""
    running = asyncio.create_task(calls(tenant, f"only_{tenant.tenant_id}"))
    waiting: list[QueuedRequest] = []
    while not waiting:
        await asyncio.wait([running], timeout=0.02)
        waiting = await asyncio.to_thread(tenant.approvals.requests)
    return running, waiting


async def answered(tenant: Tenant, other: Tenant) -> Envelope:
    """A call that waits for approval; `other` cannot see or answer it."""
    running, waiting = await asking(tenant)
    assert not await asyncio.to_thread(other.approvals.requests)
    with pytest.raises(ApprovalAnswerError, match="there is no request"):
        await asyncio.to_thread(other.approvals.approve, waiting[0].request_id, ALICE)
    await asyncio.to_thread(tenant.approvals.approve, waiting[0].request_id, ALICE)
    return await running


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return fresh_data(tmp_path / "data")


async def check_neighbours(data: Path, count: int) -> None:
    """`count` tenants in one process: each uses what it has, and tries what the next one has."""
    names = [f"t{number}" for number in range(count)]
    runs: dict[str, list[str]] = {}
    async with PathsServer().serving() as server, open_engine_of_fakes(data) as engine, AsyncExitStack() as stack:
        tenants: list[Tenant] = []
        for number, name in enumerate(names):
            store = ApprovalStore(approvals_path(tenant_dir(data, name)), is_gone=is_gone)
            queue = await stack.enter_async_context(QueueApprover(store, owner=own_mark(), report=lambda _: None))
            rules = {"ask": ["*"]} if number % 2 else {"allow": ["*"]}
            tenants.append(await enter_tenant(stack, engine, server, name, approver=queue, **rules))
        for number, tenant in enumerate(tenants):
            other = tenants[(number + 1) % count]
            own, foreign = f"only_{tenant.tenant_id}", f"only_{other.tenant_id}"
            used = await (answered(tenant, other) if number % 2 else calls(tenant, own))
            tried = await calls(tenant, foreign)
            assert isinstance(used.data, list), used
            assert isinstance(tried.data, list), tried
            assert used.data[0]["ok"], used.data
            assert tried.data[0]["error"]["type"] == "UnknownTool", tried.data
            assert token_of(tenant.tenant_id) not in used.to_json()
            dry = await calls(tenant, own, dry_run=True)
            plan_id = dry.extras["plan"]["plan_id"]
            with pytest.raises(PlanError, match="there is no plan"):
                await calls(other, own, plan=plan_id)
            runs[tenant.tenant_id] = [used.run_id, tried.run_id, dry.run_id]
        assert server.calls == [(name, f"only_{name}") for name in names]
    await asyncio.to_thread(check_files, data, runs)


def check_files(data: Path, runs: dict[str, list[str]]) -> None:
    """What the tenants' folders hold: their own runs, whole, and nobody's credentials."""
    owners = {run.encode(): name for name, own in runs.items() for run in own}
    for name, own in runs.items():
        home = tenant_dir(data, name)
        assert verify_file(journal_path(home)).ok
        recorded = {row.run_id for row in read_rows(journal_path(home))}
        assert recorded >= set(own)
        kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
        assert b"credential-of-" not in kept, f"a credential lies in the files of {name}"  # nobody's `token_of`
        mentioned = {owners[run] for run in _RUN_ID.findall(kept) if run in owners}
        assert mentioned <= {name}, f"{name} has records of others"


@pytest.mark.claim("C-TEN-1")
async def test_no_tenant_sees_what_its_neighbours_have(data: Path) -> None:
    await check_neighbours(data, 6)


@pytest.mark.slow
async def test_no_tenant_of_many_sees_what_its_neighbours_have(data: Path) -> None:
    await check_neighbours(data, 80)


TRIES = """
import os, pkgutil, servers.paths
from client.mcp_client import call_tool
replies = [await call_tool(server_id='paths', name=name, arguments={{}}) for name in ('only_{name}', 'only_{other}')]
marks = [folder + '/mark' for folder in ('/workspace', '/home/user', '/tmp', '/dev/shm')]
foreign = ['{data}/tenants/{other}', '{data}/tenants', '{data}/private', *marks]
found = [path for path in foreign if os.path.lexists(path)]
for mark in marks:
    open(mark, 'x').write('{name}')
shown = sorted(one.name for one in pkgutil.iter_modules(servers.paths.__path__) if one.name.startswith('only_'))
told = [value for value in os.environ.values() if 'credential-of' in value]
result = [replies[0].ok, replies[1].error['type'], found, shown, told]
"""


@pytest.mark.slow
async def test_40_tenants_on_real_zygotes_see_nothing_of_their_neighbours() -> None:
    """One process; some zygotes at a time, as `zygotes_max` allows. Each tries what the next one has."""
    data, names = fresh_data(run_folder() / "tenants"), [f"t{number}" for number in range(40)]
    chosen, runs, turn = Settings.load({}, data_dir=data), dict[str, list[str]](), asyncio.Semaphore(4)
    async with (
        PathsServer().serving() as server,
        open_engine(chosen, environ=dict(os.environ)) as engine,
        AsyncExitStack() as stack,
    ):
        tenants = [await enter_tenant(stack, engine, server, name) for name in names]

        async def tries(tenant: Tenant, other: str) -> None:
            name = tenant.tenant_id
            code = TRIES.format(name=name, other=other, data=data)
            async with turn:
                envelope = await tenant.runtime.run(CodeRequest(code=code.encode()), tenant.caller_grant)
            assert envelope.data == [True, "UnknownTool", [], [f"only_{name}"], []], envelope.to_json()
            runs[name] = [envelope.run_id]

        async with asyncio.TaskGroup() as tasks:
            for tenant, other in zip(tenants, names[1:] + names[:1], strict=True):
                tasks.create_task(tries(tenant, other))
    assert sorted(server.calls) == sorted((name, f"only_{name}") for name in names)
    await asyncio.to_thread(check_files, data, runs)


async def test_a_tenant_is_closed_and_opened_while_others_go_on(data: Path) -> None:
    async with PathsServer().serving() as server, open_engine_of_fakes(data) as engine, AsyncExitStack() as stack:
        stays = await enter_tenant(stack, engine, server, "stays")
        async with AsyncExitStack() as its_own:
            goes = await enter_tenant(its_own, engine, server, "goes")
            with pytest.raises(InputError, match="'goes' is open already"):
                await enter_tenant(stack, engine, server, "goes")
            with pytest.raises(InputError, match="cannot be the id of a tenant"):
                await enter_tenant(stack, engine, server, "../goes")
            first = (await calls(goes, "only_goes")).run_id
            session = goes.runtime.session(goes.caller_grant)
            await session.execute(CodeRequest(code=b'["only_goes"]'))
        assert [kind.scope for kind in engine.pool.statistics().kinds if kind.in_use or kind.ready] == []
        assert (await calls(stays, "only_stays")).ok
        goes = await enter_tenant(stack, engine, server, "goes")
        assert (await calls(goes, "only_goes")).ok
        rows = await asyncio.to_thread(lambda: list(read_rows(journal_path(goes.data))))
        assert first in {row.run_id for row in rows}
    await until(lambda: engine.pool.statistics().alive == 0)


async def test_callers_of_a_tenant_have_rules_and_budgets_of_their_own(data: Path) -> None:
    two = Layer(name=LayerName.KEY, budgets=(Budget(scope=Scope.KEY, limits={Measure.CALLS: 2}),))
    strict = Layer(name=LayerName.KEY, rules=(Rule(rule_id="none", verdict=Verdict.DENY),))
    async with PathsServer().serving() as server, open_engine_of_fakes(data) as engine, AsyncExitStack() as stack:
        tenant = await enter_tenant(stack, engine, server, "t")
        alice, bob, guest = (
            tenant.caller_grants.grant("oidc:alice", roles=("developer",), layers=(two,)),
            tenant.caller_grants.grant("oidc:bob", layers=(two,)),
            tenant.caller_grants.grant("oidc:alice", layers=(strict,)),
        )
        for name in ("", "a" * 201, "alice\n", "alice\0", "\ud800", "\u202eecila", "alice\u3164"):
            with pytest.raises(InputError, match="cannot be the name of a principal"):
                tenant.caller_grants.grant(name)
        outcomes = []
        for grant in (alice, alice, tenant.caller_grants.grant("oidc:alice", layers=(two,)), bob, guest):
            envelope = await tenant.runtime.run(CodeRequest(code=b'["only_t"]'), grant)
            assert isinstance(envelope.data, list), envelope
            outcomes.append(envelope.data[0].get("error", {}).get("type", "ok"))
        assert outcomes == ["ok", "ok", "PolicyDenied", "ok", "PolicyDenied"]
        assert (alice.roles, guest.policy_digest == alice.policy_digest) == (("developer",), False)


async def test_what_a_tenant_may_reach_is_its_own_setting_within_one_bound_of_the_process(data: Path) -> None:
    wanted = NetworkRules((parse_domain("a.b.example"),))
    async with (
        open_engine_of_fakes(data, network="none", network_connections_max=4) as engine,
        AsyncExitStack() as stack,
    ):

        async def enter(name: str, **settings: Any) -> Tenant:
            own = msgspec.structs.replace(engine.settings, **settings)
            tenant = open_tenant(engine, name, config=None, approver=Silent(), settings=own)
            return await stack.enter_async_context(tenant)

        open_to_all = await enter("any", network="any", network_connections_max=1000)
        some = await enter("some", network="*.b.example")
        none = await enter("none")
        for tenant in (open_to_all, some):
            session = tenant.runtime.session(tenant.caller_grant, network=wanted)
            assert session.network.rules == wanted
            await session.close()
        with pytest.raises(NetworkRuleError, match="MOONPOOL_NETWORK"):
            some.runtime.session(some.caller_grant, network=NetworkRules((parse_domain("a.example.org"),)))
        with pytest.raises(NetworkRuleError, match="MOONPOOL_NETWORK"):
            none.runtime.session(none.caller_grant, network=wanted)
        services = {id(one.runtime.network_services) for one in (open_to_all, some, none)}
        assert (len(services), engine.network_services.places.connections_max) == (1, 32)


@pytest.mark.claim("C-TEN-3")
def test_shares_leave_room_for_other_tenants_and_principals() -> None:
    shares = Shares(8)
    for _ in range(8):
        assert shares.reached("a", "alice") is None
        shares.take("a", "alice")
    assert shares.reached("a", "alice") is Level.TENANT  # alone it may have everything, and has
    assert shares.reached("b", "bob") is Level.ALL
    for _ in range(3):
        shares.give_back("a", "alice")
    shares.take("b", "bob")
    assert (shares.tenant_max("a"), shares.tenant_max("b")) == (6, 6)
    shares.take("a", "anna")
    assert shares.reached("a", "alice") is Level.PRINCIPAL
    assert shares.reached("b", "bob") is None
    for tenant, name in [("a", "alice")] * 5 + [("a", "anna"), ("b", "bob")]:
        shares.give_back(tenant, name)
    assert (shares.total, shares.tenant_max("a")) == (0, 8)
    for tenant, name in (("b", "bob"), ("a", "anna")):  # each comes when alice has everything and asks for more
        greedy = Shares(4)
        for _ in range(4):
            greedy.take("a", "alice")
        assert greedy.reached(tenant, name)
        greedy.turn_away(tenant, name)
        greedy.give_back("a", "alice")
        assert greedy.reached("a", "alice")
        assert greedy.reached(tenant, name) is None
        greedy.take(tenant, name)
        greedy.give_back(tenant, name)
        assert greedy.reached("a", "alice") is None


@pytest.mark.claim("C-TEN-3")
async def test_approvals_of_one_tenant_leave_room_for_those_of_others() -> None:
    bounds = ApprovalBounds(open_max=4)
    asked = [LiveApprovals(Silent(), tenant_id=name, bounds=bounds) for name in ("a", "b")]

    def ask(tenant: int, run: int) -> asyncio.Task[ApprovalAnswer]:
        request = ApprovalRequest(
            request_id="", run_id=f"run_{tenant}{run}", principal="p", server_id="s", tool_name="t", tool_digest="",
            arguments="{}", arguments_digest=f"{run}", reason="",
        )  # fmt: skip
        return asyncio.ensure_future(asked[tenant].settle(request))

    waiting = [ask(0, run) for run in range(4)]
    await asyncio.wait(waiting, timeout=0.01)
    assert (await ask(1, 0)).approver == "application:limit"
    waiting[3].cancel()
    await asyncio.wait(waiting[3:])
    waiting[3] = ask(0, 4)  # turned away as well: there is somebody else now
    assert (await waiting.pop()).approver == "application:limit"
    waiting.append(ask(1, 0))
    await asyncio.wait(waiting, timeout=0.01)
    refused = await ask(0, 3)
    assert (refused.state, refused.approver) == (ApprovalState.REJECTED, "application:limit")
    for task in waiting:
        assert not task.done()
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert bounds.open.total == bounds.waiting_runs.total == 0


async def test_no_call_leaves_where_its_execution_cannot_be_recorded(data: Path) -> None:
    """Not even one that only reads, whose outcome is recorded when it is back."""
    async with (
        PathsServer(read_only=True).serving() as server,
        open_engine_of_fakes(data) as engine,
        AsyncExitStack() as stack,
    ):
        tenant = await enter_tenant(stack, engine, server, "t", allow=["*"], trusted=True)
        journal = journal_path(tenant.data)
        await asyncio.to_thread(journal.mkdir, parents=True)  # where a file should be opened
        failed = await calls(tenant, "only_t")
        assert failed.error
        assert failed.error.type == "Internal"
        assert server.calls == []
        await asyncio.to_thread(journal.rmdir)
        assert (await calls(tenant, "only_t")).ok
        assert server.calls == [("t", "only_t")]


class Opened:
    """A tenant in a task of its own, which may begin and end at any moment."""

    def __init__(self, engine: Engine, server: PathsServer, name: str, **more: Any) -> None:
        self.tenant: asyncio.Future[Tenant] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self.task = asyncio.create_task(self._live(engine, server, name, more))

    async def _live(self, engine: Engine, server: PathsServer, name: str, more: dict[str, Any]) -> None:
        async with AsyncExitStack() as stack:
            self.tenant.set_result(await enter_tenant(stack, engine, server, name, **more))
            await self._leave.wait()

    def close(self) -> asyncio.Task[None]:
        self._leave.set()
        return self.task


async def test_a_tenant_is_not_opened_while_it_opens_or_closes(data: Path) -> None:
    async with PathsServer().serving() as server, open_engine_of_fakes(data) as engine:
        first, second = Opened(engine, server, "twin"), Opened(engine, server, "twin")
        with pytest.raises(InputError, match="'twin' is open already"):
            async with asyncio.timeout(20):
                await second.task
        await first.tenant
        closing, refused = first.close(), 0
        while not closing.done():
            again = Opened(engine, server, "twin")
            await asyncio.wait([again.task, closing], return_when=asyncio.FIRST_COMPLETED)
            if again.task.done():
                assert isinstance(again.task.exception(), InputError)
                refused += 1
            else:
                assert closing.done(), "it opens while the one before still closes"
                assert (await calls(await again.tenant, "only_twin")).ok
                await again.close()
        assert refused


async def test_closing_a_tenant_ends_what_it_runs_and_records_that(data: Path) -> None:
    store = ApprovalStore(approvals_path(tenant_dir(data, "t")), is_gone=is_gone)
    async with (
        PathsServer().serving() as server,
        open_engine_of_fakes(data) as engine,
        QueueApprover(store, owner=own_mark(), report=lambda _: None) as queue,
    ):
        opened = Opened(engine, server, "t", approver=queue, ask=["*"])
        tenant = await opened.tenant
        running, _ = await asking(tenant)
        session = tenant.runtime.session(tenant.caller_grant)
        kept = asyncio.create_task(session.execute(CodeRequest(code=b'["only_t"]')))
        await opened.close()
        assert running.done()
        ended = [await running, await kept]
        assert [one.error and one.error.type for one in ended] == ["Cancelled"] * 2
        rows = await asyncio.to_thread(lambda: list(read_rows(journal_path(tenant.data))))
        for one in ended:
            assert [row.kind for row in rows if row.run_id == one.run_id][-1] == "execution_end"
        late = await calls(tenant, "only_t")
        assert late.error
        assert late.error.type == "Cancelled"
        with pytest.raises(FileTransferError, match="has closed it"):
            await session.files.make_folder("late")
        assert (server.calls, engine.pool.statistics().alive) == ([], 0)


def check_ends(tenant: Tenant) -> None:
    """Each start on record has its end."""
    kinds: dict[str, list[str]] = {"execution_start": [], "execution_end": []}
    for row in read_rows(journal_path(tenant.data)):
        kinds.get(row.kind, []).append(row.run_id)
    assert kinds["execution_start"]
    assert sorted(kinds["execution_start"]) == sorted(kinds["execution_end"])


async def test_a_start_gets_its_end_wherever_its_caller_is_cancelled(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(spec: object) -> NoReturn:
        raise SandboxStartError(step="test", reason=f"nothing opens {spec}")

    async with PathsServer().serving() as server, open_engine_of_fakes(data) as engine, AsyncExitStack() as stack:
        tenant = await enter_tenant(stack, engine, server, "t")
        assert (await calls(tenant, "only_t")).ok  # its tools are known from now on
        monkeypatch.setattr(engine.backend, "open_sandbox", fails)
        for turns in range(24):
            running = asyncio.create_task(calls(tenant, "only_t"))
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            running.cancel()
            await asyncio.wait([running])
        await tenant.runtime.close()
        await asyncio.to_thread(check_ends, tenant)


async def test_a_closing_that_is_cancelled_still_puts_every_end_on_record(data: Path) -> None:
    async with PathsServer().serving() as server, open_engine_of_fakes(data) as engine:
        for turns in (0, 1, 2, 3, 5, 8, 13):
            opened = Opened(engine, server, f"t{turns}", approver=Silent(), ask=["*"])
            tenant = await opened.tenant
            running = [asyncio.create_task(calls(tenant, f"only_t{turns}")) for _ in range(2)]
            await until(lambda: engine.approval_bounds.open.total == 2)
            closing = opened.close()
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            closing.cancel()
            await asyncio.wait([closing, *running])
            errors = [(await one).error for one in running]
            assert [error and error.type for error in errors] == ["Cancelled"] * 2
            await asyncio.to_thread(check_ends, tenant)
