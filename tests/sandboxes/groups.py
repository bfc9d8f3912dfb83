"""Limit groups for tests: each mode that this machine has. Where `MOONPOOL_REQUIRE_LIMITS` names one, it must work."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import pytest

from moonpool.sandboxes.cgroups import LimitsMode, open_groups

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.cgroups import LimitGroups


@asynccontextmanager
async def best_groups() -> AsyncGenerator[LimitGroups]:
    """The best control groups of this machine; skips where it has none. None of them may be left afterwards."""
    groups = await anyio.to_thread.run_sync(open_groups, "auto")
    if groups.mode is LimitsMode.RLIMITS:
        if os.environ.get("MOONPOOL_REQUIRE_LIMITS"):
            pytest.fail(f"control groups are required here, but: {open_groups('cgroup1').missing}")
        pytest.skip("this process may make no control groups")
    try:
        yield groups
    finally:
        await groups.close()
    assert [top for top in groups.tops.values() if top.exists()] == []


def groups_of(pid: int) -> dict[str, str]:
    """Controller to path of the group that a process is in, as the host sees it."""
    lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    return {name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")}
