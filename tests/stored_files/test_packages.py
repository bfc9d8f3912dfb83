"""Packages that a thread's code installs are there at its next execution."""

# ruff: noqa: E501  code of sandboxes, one line each

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apps import open_app
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.stored_files.remembered_packages import PATH, RememberedPackages
from moonpool.engine.stored_files.run_storage import RunStorage
from packages.fake_index import Index
from stored_files.executions import in_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope
    from stored_files.memory_trees import MemoryTree

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(120)]
INSTALL = "from moonpool_guest.toolcalls import install_packages\nprint(install_packages('good<2'))\nimport good; result = good.version"


async def execute(app: Tenant, thread: MemoryTree, code: str) -> Envelope:
    remembered = RememberedPackages(snapshot=thread.snapshot)
    storage = RunStorage(mounts=(in_workspace(thread),), timeout_s=30, packages=remembered)
    return await app.runtime.run(CodeRequest(code=code.encode()), app.caller_grant, storage=storage)


async def test_they_survive_and_need_neither_the_index_nor_another_resolution(
    tmp_path: Path, thread: MemoryTree
) -> None:
    index = Index(tmp_path)
    index.add("good", "1.0", requires=["dep"])
    index.add("good", "2.0")
    index.add("dep")
    with index.served() as (address, requests):
        async with open_app(packages="any,!denied", package_index=address) as app:
            assert (await execute(app, thread, INSTALL)).error is None
            assert set(thread.files) == {PATH}
            there = len(requests)
            later = await execute(
                app, thread, "import good, dep, os; result = [good.version, '.moonpool' in os.listdir()]"
            )
            assert (later.error, later.data) == (None, ["1.0", False])
            assert len(requests) == there
            assert thread.snapshot.version == 1

            kept = json.loads(thread.content(PATH))
            forged = {**kept, "wheels": [{**kept["wheels"][0], "sha256": "0" * 64}]}
            await thread.put({PATH: json.dumps(forged).encode()})  # by the Files API: a wheel that nobody has
            again = await execute(app, thread, "import good; result = good.version")
            assert (again.error, again.data) == (None, "1.0")

            for content, says in (
                (b'{"requirements": {"denied": "denied"}, "wheels": []}', "the packages of the thread are not there"),
                (b'{"requirements": {"x": "git+https://example.com/x"}, "wheels": []}', "are not there"),
                (b"[" * 100_000, ""),
                (b"\xff", ""),
            ):
                await thread.put({PATH: content})
                refused = await execute(app, thread, "result = 1")
                assert (refused.error, refused.data) == (None, 1)
                assert says in refused.note
