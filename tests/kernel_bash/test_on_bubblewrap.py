"""The same Bash in the other real sandbox, which is started for one kernel and loads everything late."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio
import pytest

from kernel_bash.probing import BashProbe
from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from sandboxes.images import working

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ImageSpec

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bash(request: pytest.FixtureRequest, image: ImageSpec) -> AsyncGenerator[BashProbe]:
    async with working(BubblewrapBackend) as backend:
        request.node.user_properties.append(("sandbox backend", "bubblewrap"))
        with anyio.fail_after(20):
            sandbox = await backend.open_sandbox(SandboxSpec(image=image))
        yield BashProbe(sandbox)
        with anyio.fail_after(20):
            await sandbox.close()


async def test_a_session_runs_calls_fails_and_is_interrupted(bash: BashProbe) -> None:
    assert (await bash.run("x=1; echo first")).stdout == "first\n"
    assert json.loads((await bash.run("moonpool call s.t '{\"a\": 1}'")).stdout)["arguments"] == {"a": 1}
    assert (await bash.run("set -e; false")).error[0] == "CommandFailed"
    bash.start("echo in; sleep 100")
    await bash.said("in\n")
    bash.sandbox.interrupt()
    assert (await bash.finish()).error[0] == "KeyboardInterrupt"
    assert (await bash.run("echo $x")).stdout == "1\n"
