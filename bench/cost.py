"""`python -m bench.cost [--json]`: processor time of an execution, in the host, in the sandbox and in the kernel.

Everything that works for one execution is counted: this process, zygote and sandbox, what ends them, and the kernel's
own workers that take namespaces and control groups down. Beside it, in the same run: the prototype of the zygote where
`shared/prototypes` lies beside the project, bubblewrap around a plain Python, fastmcp's CodeMode and ipybox. Needs root
or version 2 of control groups, gcc for the prototype, and a quiet machine. Every `vs_...` above 1 means: Moonpool takes
less, or is faster.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.cpu_meter import CpuMeter, Spent, cpu_meter
from bench.groups import mcp_face, rates
from bench.groups.toolcalls import read_config, write_config
from bench.machine import describe_machine
from bench.peers.agents import open_agent
from bench.peers.programs import open_spawner, seccomp_fd, walled_python
from bench.peers.venvs import PeerMissingError
from bench.sampling import Case, median, take_turns
from bench.sizes import FULL, QUICK, TINY
from bench.world import ONE_PLUS_ONE, open_world, prepare_environment, timed_execute, timed_run, without_pool
from moonpool.engine.code_request import CodeRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bench.peers.agents import Agent
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import Tenant

_ENVIRONMENT: Final = "base"
_PROTOTYPE: Final = Path(__file__).parents[2] / "shared" / "prototypes" / "zygote"
_BATCH: Final = {"fresh": 4, "session": 10, "calls": 2}  # times the size's own counts: the clock of a group is coarse
_CALLS: Final = """\
from servers.bench import read_only
for n in range({count}):
    assert (await read_only(n=n))["n"] == n + 1
"""
_BUILD_S: Final = 60.0

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Book:
    """What each kind of work has cost so far, per piece of it."""

    meter: CpuMeter
    spent: dict[str, list[Spent]] = field(default_factory=dict[str, list[Spent]])

    def case(self, name: str, work: Callable[[int], Awaitable[object]], count: int) -> Case:
        """A case whose samples are ms of processor time per piece."""

        async def take(given: int) -> list[float]:
            spent = await self.meter.spent_on(work(given))
            per = Spent(all=spent.all / given, host=spent.host / given, kernel=spent.kernel / given)
            self.spent.setdefault(name, []).append(per)
            return [1000 * per.all]

        return Case(name=name, take=take, per_round=count)

    def ms(self, name: str, part: str = "all") -> float | None:
        """The median of the batches, the warm-up left out."""
        found = [1000 * getattr(spent, part) for spent in self.spent.get(name, ())][1:]
        return median(found) if found else None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description="Processor time per execution.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few samples: is anything badly off?")
    size.add_argument("--tiny", action="store_true", help="next to no samples: does the harness work?")
    parser.add_argument("--no-peers", action="store_true", help="leave out what must be installed to be compared with")
    parser.add_argument("--prototype", type=Path, default=_PROTOTYPE, metavar="DIR", help="the prototype's sources")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else TINY if options.tiny else FULL
    machine = describe_machine()
    try:
        with cpu_meter() as meter:
            figures = asyncio.run(_measure(meter, sizes, options.prototype, peers=not options.no_peers))
    except LookupError as error:
        print(f"bench.cost: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"machine": machine, **figures}) if options.json else _text(machine, figures))
    return 0


async def _measure(meter: CpuMeter, sizes: Sizes, prototype: Path, *, peers: bool) -> Figures:
    await prepare_environment(_ENVIRONMENT)
    async with open_world((_ENVIRONMENT,), peers=peers) as world, AsyncExitStack() as stack:
        config = read_config(write_config(world.folder))
        app = await stack.enter_async_context(world.app(_ENVIRONMENT, config=config))
        book = Book(meter)
        missing: dict[str, str] = {}
        cases = [*await _ours(app, book, stack, sizes), *await _bubblewrap(app, book, stack, sizes)]
        cases += await _optional("prototype", _prototype(prototype, world, book, stack, sizes), missing)
        cases += await _optional("ipybox", _ipybox(world, book, sizes), missing)
        await meter.learn_idle()
        await take_turns("cost", cases, rounds=sizes.slow_rounds)
        rate = await rates.measure(world, sizes)
        face, face_missing = await _face(world, book, sizes)
        return _figures(book, rate, face, {**missing, **face_missing})


async def _ours(app: Tenant, book: Book, stack: AsyncExitStack, sizes: Sizes) -> list[Case]:
    unpooled = without_pool(app)
    stack.push_async_callback(unpooled.close)
    session = unpooled.session(app.caller_grant)

    async def fresh(count: int) -> None:
        for _ in range(count):
            await timed_run(unpooled, app)

    async def live(count: int) -> None:
        for _ in range(count):
            await timed_execute(session, ONE_PLUS_ONE, 2)

    async def calls(count: int) -> None:
        envelope = await session.execute(CodeRequest(code=_CALLS.format(count=count).encode()))
        assert envelope.error is None, envelope.error
        assert envelope.metrics["tool_calls"] == count, envelope.metrics

    await live(1)
    return [
        book.case("fresh", fresh, _BATCH["fresh"] * sizes.fresh),
        book.case("session", live, _BATCH["session"] * sizes.session),
        book.case("tool_call", calls, _BATCH["calls"] * sizes.calls),
    ]


async def _bubblewrap(app: Tenant, book: Book, stack: AsyncExitStack, sizes: Sizes) -> list[Case]:
    image, filter_fd = app.runtime.sandbox_spec.image, seccomp_fd()
    spawner = await stack.enter_async_context(open_spawner(image.python, image.variables, fds=[filter_fd]))
    walled = walled_python(image, filter_fd)
    return [book.case("bwrap", lambda count: spawner.run(walled, count), _BATCH["fresh"] * sizes.fresh)]


async def _prototype(sources: Path, world: World, book: Book, stack: AsyncExitStack, sizes: Sizes) -> list[Case]:
    if not await asyncio.to_thread(sources.is_dir):
        raise PeerMissingError("the prototype is not beside the project")
    place = world.folder / "prototype"
    await asyncio.to_thread(shutil.copytree, sources, place)
    place.chmod(0o755)  # another uid reads it
    build = ("gcc", "-O2", "-shared", "-fPIC", "-o", str(place / "cellspawn.so"), str(place / "cellspawn.c"))
    try:
        compiler = await asyncio.create_subprocess_exec(*build, stderr=asyncio.subprocess.DEVNULL)
        async with asyncio.timeout(_BUILD_S):
            code = await compiler.wait()
    except FileNotFoundError:
        raise PeerMissingError("the prototype needs gcc") from None
    if code:
        raise PeerMissingError(f"gcc ended with {code}")
    agent = await stack.enter_async_context(open_agent("prototype", Path(sys.executable), place))
    await agent.ask("start")
    return [book.case("prototype", _asking(agent, "fresh"), _BATCH["fresh"] * sizes.fresh)]


async def _ipybox(world: World, book: Book, sizes: Sizes) -> list[Case]:
    agent = await world.peers.agent("ipybox")
    return [
        book.case("ipybox.session", _asking(agent, "execute"), sizes.session),
        book.case("ipybox.tool_call", _asking(agent, "tool"), max(1, sizes.calls // 2)),
    ]


def _asking(agent: Agent, kind: str) -> Callable[[int], Awaitable[object]]:
    return lambda count: agent.ask(kind, count=count)


async def _face(world: World, book: Book, sizes: Sizes) -> tuple[Measured, dict[str, str]]:
    """`execute_code` with one tool call over stdio: how long, and, apart from that, at which cost."""
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        ours = mcp_face.our_calls(await mcp_face.open_ours(world, stack))
        timed = [Case(name="ours", take=ours, per_round=sizes.fresh)]
        counted = [book.case("execute_code", ours, _BATCH["fresh"] * sizes.fresh)]
        try:
            theirs = mcp_face.their_calls(await mcp_face.open_codemode(world, stack))
        except PeerMissingError as error:
            missing["codemode"] = str(error)
        else:
            timed.append(Case(name="codemode", take=theirs, per_round=sizes.fresh))
            counted.append(book.case("codemode", theirs, _BATCH["fresh"] * sizes.fresh))
        measured = await take_turns("face", timed, rounds=sizes.rounds)
        await take_turns("face cost", counted, rounds=sizes.slow_rounds)
    return measured, {**missing, **measured.skipped}


async def _optional(name: str, opening: Awaitable[Sequence[Case]], missing: dict[str, str]) -> Sequence[Case]:
    try:
        return await opening
    except PeerMissingError as error:
        missing[name] = str(error)
        return ()


def _figures(book: Book, rate: Measured, face: Measured, missing: dict[str, str]) -> Figures:
    bwrap, rated = book.ms("bwrap"), {name: median(found) for name, found in _flat(rate).items()}
    faced = {name: median(samples) for name, samples in _flat(face).items()}
    counts = [name.rpartition(".")[2] for name in rated if name.startswith("rate.bwrap.")]
    return {
        "fresh": {
            **_parts(book, "fresh"),
            "bwrap_cpu_ms": bwrap,
            "prototype_cpu_ms": book.ms("prototype"),
            "vs_bwrap": _ratio(bwrap, book.ms("fresh")),
            "host_vs_bwrap": _ratio(bwrap, book.ms("fresh", "host")),
            "vs_prototype": _ratio(book.ms("prototype"), book.ms("fresh")),
            "rate_vs_bwrap": {
                count: _ratio(rated[f"rate.{_ENVIRONMENT}.{count}"], rated[f"rate.bwrap.{count}"]) for count in counts
            },
        },
        "session": {
            **_parts(book, "session"),
            "vs_bwrap": _ratio(bwrap, book.ms("session")),
            "ipybox_cpu_ms": book.ms("ipybox.session"),
            "vs_ipybox": _ratio(book.ms("ipybox.session"), book.ms("session")),
        },
        "tool_call": {
            **_parts(book, "tool_call"),
            "ipybox_cpu_ms": book.ms("ipybox.tool_call"),
            "vs_ipybox": _ratio(book.ms("ipybox.tool_call"), book.ms("tool_call")),
        },
        "execute_code": {
            "ms": faced["ours"],
            "codemode_ms": faced.get("codemode"),
            "vs_codemode": _ratio(faced.get("codemode"), faced["ours"]),
            "cpu_ms": book.ms("execute_code"),
            "codemode_cpu_ms": book.ms("codemode"),
            "cpu_vs_codemode": _ratio(book.ms("codemode"), book.ms("execute_code")),
        },
        "missing": missing,
    }


def _parts(book: Book, name: str) -> Figures:
    parts = {"cpu_ms": "all", "host_cpu_ms": "host", "kernel_cpu_ms": "kernel"}
    return {title: book.ms(name, part) for title, part in parts.items()}


def _flat(measured: Measured) -> dict[str, list[float]]:
    return {name: measured.samples(name) for name in measured.rounds}


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


def _text(machine: dict[str, str | int | float], figures: Figures) -> str:
    lines = [f"{machine['date']} · commit {machine['commit']} · {machine['cores']} cores, {machine['cpu']}"]
    for part, members in figures.items():
        lines += ["", part, *(f"  {name:20} {_said(value)}" for name, value in members.items())]
    return "\n".join(lines)


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{key}: {_said(one)}" for key, one in value.items())  # pyright: ignore[reportUnknownVariableType]
    return "not measured" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
