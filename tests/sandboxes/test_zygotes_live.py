"""Real zygotes are replaced: sandboxes of one share layout and hash seed, those of its successor have others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.zygote import ZygoteBackend
from moonpool.sandboxes.zygote_family import ZygotePolicy
from process_tree import descendants
from sandboxes.probe import Probe
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.sandboxes.base import ImageSpec

pytestmark = pytest.mark.anyio

LAYOUT = """
with open("/proc/self/maps") as maps:
    lines = list(maps)
stack = next(line for line in lines if "[stack]" in line).split()[0]
code = next(line for line in lines if "/libc" in line).split()[0]
result = {"hash": hash("moonpool"), "code": code, "stack": stack}
"""
"""The hash seed, and where libc and the stack lie. The interpreter itself may be linked to a fixed place (Debian's)."""


async def seen_from(backend: ZygoteBackend, spec: SandboxSpec) -> tuple[Probe, dict]:
    probe = Probe(await backend.open_sandbox(spec))
    return probe, (await probe.run(LAYOUT)).result


async def test_a_successor_has_another_hash_seed_and_another_layout(image: ImageSpec, state_dir: Path) -> None:
    backend = ZygoteBackend(state_dir, policy=ZygotePolicy(forks_max=3, per_image_max=1))
    spec = SandboxSpec(image=image)
    first, one = await seen_from(backend, spec)
    _, two = await seen_from(backend, spec)
    assert one["hash"] == two["hash"]
    assert one["code"] == two["code"]
    for _ in range(2):
        await (await backend.open_sandbox(spec)).close()
    await until(lambda: backend.zygote_totals().replaced == 1)
    _, other = await seen_from(backend, spec)
    assert other["hash"] != one["hash"]
    assert other["code"] != one["code"]
    assert other["stack"] != one["stack"]
    assert (await first.run("result = 'the old one lives on'")).result == "the old one lives on"
    await backend.close()


async def test_the_old_zygote_is_gone_when_its_last_sandbox_is(image: ImageSpec, state_dir: Path) -> None:
    backend = ZygoteBackend(state_dir, policy=ZygotePolicy(forks_max=3, per_image_max=1))
    spec = SandboxSpec(image=image)
    held = [await backend.open_sandbox(spec) for _ in range(4)]
    await until(lambda: backend.zygote_totals().replaced == 1)
    with_both = len(descendants())
    assert [one.retired for one in backend.zygote_totals().live] == [False, True]
    for sandbox in held:
        await sandbox.close()
    await until(lambda: len(backend.zygote_totals().live) == 1)
    await until(lambda: len(descendants()) < with_both - len(held))  # the outer sandbox and its zygote, too
    await until(lambda: len(list(state_dir.glob("*/slots"))) == 1)
    await backend.close()


async def test_callers_notice_nothing_of_replacements(image: ImageSpec, state_dir: Path) -> None:
    backend = ZygoteBackend(state_dir, policy=ZygotePolicy(forks_max=3, per_image_max=1))
    spec = SandboxSpec(image=image)
    number = 0
    with anyio.fail_after(60):
        while backend.zygote_totals().replaced < 2:
            number += 1
            probe = Probe(await backend.open_sandbox(spec))
            assert (await probe.run(f"result = {number}")).result == number
            await probe.sandbox.close()
            assert len(backend.zygote_totals().live) <= 2  # one that serves, one that ends
    assert backend.zygote_totals().forks == number
    await backend.close()
