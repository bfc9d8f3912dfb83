"""Node kernels in real sandboxes. The zygotes live as long as the tests do; each test gets a sandbox of its own.

A host without Node.js fails these tests: the development packages bring one along.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
import pytest

from kernel_node.probe import NodeProbe, image_with, node_of, wheel_program
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.environments.node_tools import are_needed, installed_tools
from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.zygote import ZygoteBackend
from moonpool.wrappers.tree import render_tree
from run_folder import environments
from sandboxes.images import working

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from moonpool.environments.runtimes import Runtime
    from moonpool.sandboxes.base import ImageSpec, SandboxLimits
    from moonpool.sandboxes.messages import ToolCall

    Opener = Callable[..., Awaitable[NodeProbe]]

GOOGLE_DRIVE = ServerListing(
    server_id="google-drive",
    tools=(
        ToolDefinition(
            server_id="google-drive",
            name="get.document",
            raw={
                "name": "get.document",
                "inputSchema": {"type": "object", "properties": {"documentId": {"type": "string"}}},
            },
        ),
    ),
)


@pytest.fixture(scope="session")
async def node() -> Runtime:
    """The Node.js that the product finds, with what it needs for TypeScript."""
    node = node_of("system")
    if are_needed(node.version):
        paths = os.pathsep.join([os.environ["PATH"], str(wheel_program().parent)])
        await installed_tools(
            environments(), npm=shutil.which("npm", path=paths) or "", environ={**os.environ, "PATH": paths}
        )
    return node


@pytest.fixture(scope="session")
async def image(node: Runtime) -> ImageSpec:
    return await image_with(node)


@pytest.fixture(scope="session")
async def backend() -> AsyncGenerator[ZygoteBackend]:
    async with working(ZygoteBackend) as backend:
        yield backend


@pytest.fixture
async def open_kernel(
    request: pytest.FixtureRequest, backend: ZygoteBackend, image: ImageSpec
) -> AsyncGenerator[Opener]:
    """Opens sandboxes with other limits or another image; closes them when the test ends."""
    request.node.user_properties.append(("sandbox backend", backend.name))
    opened: list[NodeProbe] = []

    async def open_one(*, limits: SandboxLimits | None = None, other_image: ImageSpec | None = None) -> NodeProbe:
        spec = SandboxSpec(image=other_image or image, **({"limits": limits} if limits else {}))
        with anyio.fail_after(20):
            opened.append(NodeProbe(await backend.open_sandbox(spec)))
        return opened[-1]

    yield open_one
    for probe in opened:
        with anyio.fail_after(20):
            await probe.sandbox.close()


@pytest.fixture
async def kernel(open_kernel: Opener) -> NodeProbe:
    """A fresh sandbox with an echoing broker."""
    return await open_kernel()


@pytest.fixture(scope="session")
async def bare_image() -> ImageSpec:
    """An image without any Node.js."""
    return await image_with(None)


@pytest.fixture
def kernel_with_tools(kernel: NodeProbe) -> Generator[NodeProbe]:
    """A kernel with the wrappers of one server, whose tool gives `text of <documentId>`."""
    # beside the backend's own folder: trees are shown by hard links, and /tmp may be another file system
    with tempfile.TemporaryDirectory(prefix="moonpool-test-", dir="/var/tmp") as folder:
        tree = Path(folder)
        for name, content in render_tree(Manifest(servers=(GOOGLE_DRIVE,))).files.items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        tree.chmod(0o755)
        kernel.sandbox.publish(tree, "sha256:drive")
        kernel.broker = _text_of_document
        yield kernel


def _text_of_document(call: ToolCall, arguments: object) -> object:
    content = f"text of {cast('dict[str, str]', arguments)['documentId']}"
    assert call.tool == "get.document"
    return {"ok": True, "data_from": "structured", "raw": {"structuredContent": {"content": content}}}


@pytest.fixture(params=["system", pytest.param("wheel", marks=pytest.mark.slow)])
async def each_kernel(request: pytest.FixtureRequest, open_kernel: Opener) -> NodeProbe:
    """The same on the oldest and the newest Node.js that this machine has."""
    return await open_kernel(other_image=await image_with(node_of(request.param)))
