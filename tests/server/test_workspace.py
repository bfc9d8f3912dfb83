"""`moonpool mcp --workspace`: every execution works in a folder of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio
import pytest
from mcp import Client, StdioServerParameters

from apps import DATA, open_app, run
from commands.process import SCRIPT
from moonpool.bootstrap import host_folders
from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio
CODE = "import os\nopen('made', 'w').write('by code')\nresult = [os.getcwd(), sorted(os.listdir('/workspace'))]"


async def test_sessions_of_a_runtime_with_a_folder_work_in_it_and_plan_nothing(tmp_path: Path) -> None:
    async with open_app() as app:
        app.runtime.folders = host_folders(app.settings, os.environ, [tmp_path])
        assert (await run(app, CODE)).data == [str(tmp_path), [".env", "made"]]
        assert (tmp_path / "made").read_text(encoding="utf-8") == "by code"
        for planned in ({"dry_run": True}, {"plan": "plan_1"}):
            with pytest.raises(InputError, match="changes in a folder"):
                await run(app, CODE, **planned)


@pytest.mark.slow  # a process
async def test_a_client_has_the_folder_that_the_operator_named(tmp_path: Path) -> None:
    command = StdioServerParameters(
        command=str(SCRIPT),
        args=["mcp", "--env", "base", "--workspace", str(tmp_path)],
        env={"MOONPOOL_DATA_DIR": str(DATA)},
    )
    with anyio.fail_after(120):
        async with Client(command) as client:
            result = await client.call_tool("execute_code", {"code": CODE})
    assert not result.is_error, result.content
    assert (tmp_path / "made").exists()
