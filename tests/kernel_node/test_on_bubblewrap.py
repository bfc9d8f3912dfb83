"""The same kernel in a wall of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from kernel_node.probe import NodeProbe
from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from sandboxes.images import working

if TYPE_CHECKING:
    from moonpool.sandboxes.base import ImageSpec

pytestmark = pytest.mark.anyio


async def test_node_runs_calls_and_is_interrupted_on_bubblewrap(
    request: pytest.FixtureRequest, image: ImageSpec
) -> None:
    async with working(BubblewrapBackend) as backend:
        request.node.user_properties.append(("sandbox backend", backend.name))
        with anyio.fail_after(60):
            kernel = NodeProbe(await backend.open_sandbox(SandboxSpec(image=image)))
            await kernel.python("from moonpool_guest import companion\ncompanion.INTERRUPT_GRACE_S = 15\nresult = 1")
            called = await kernel.run(
                "let kept = 1; globalThis.result = (await globalThis[Symbol.for('moonpool.callTool')]('s', 't', {})).ok"
            )
            kernel.start("console.log('in'); while (true);")
            await kernel.said("in")
            kernel.sandbox.interrupt()
            interrupted = await kernel.finish()
            after = await kernel.run("result = kept")
            await kernel.sandbox.close()
    assert called.result is True
    assert interrupted.error[0] == "KeyboardInterrupt"
    assert after.result == 1
