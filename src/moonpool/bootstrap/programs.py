"""Programs of the host that run code in other languages than Python."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.bootstrap.folders import sandbox_uid
from moonpool.engine.languages import Languages
from moonpool.environments import node_tools
from moonpool.environments.runtimes import Absence, find_bash, find_node
from moonpool.environments.runtimes import Runtime as RuntimeProgram
from moonpool.sandboxes.code_writable import variables_without_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


async def find_runtimes(data: Path, environ: Mapping[str, str]) -> tuple[RuntimeProgram | Absence, ...]:
    """Node.js and Bash on this host, or why they are unusable."""

    def find() -> tuple[RuntimeProgram | Absence, ...]:
        root, uid = data / "environments", sandbox_uid()
        home = Path(environ.get("HOME", "/nonexistent"))
        return (
            find_node(root=root, uid=uid, environ=environ, home=home),
            find_bash(root=root, uid=uid, environ=environ),
        )

    return await asyncio.to_thread(find)


async def make_languages(
    found: Sequence[RuntimeProgram | Absence], data: Path, environ: Mapping[str, str]
) -> Languages:
    """The languages besides Python that the engine supports."""
    absent = {one.language: one.reason for one in found if isinstance(one, Absence)}
    node = next((one for one in found if isinstance(one, RuntimeProgram) and one.language == "node"), None)
    root = data / "environments"
    if node is None or not (node_tools.are_needed(node.version) or node_tools.are_needed_to_fetch(node.version)):
        return Languages(absent=absent)
    npm = await asyncio.to_thread(_npm_that_must_install, root, environ)
    if npm is None:
        return Languages(absent=absent)
    return Languages(
        absent=absent,
        install_tools=lambda: node_tools.installed_tools(root, npm=npm, environ=environ),
        typescript_needs_tools=node_tools.are_needed(node.version),
    )


def _npm_that_must_install(root: Path, environ: Mapping[str, str]) -> str | None:
    """The path of npm (empty if missing), or None if the tools are installed. Searches folders, so only in a thread."""
    if node_tools.tools_place(root).is_dir():
        return None
    return shutil.which("npm", path=variables_without_code(environ).get("PATH", os.defpath)) or ""
