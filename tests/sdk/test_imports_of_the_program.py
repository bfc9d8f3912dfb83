"""A program that attaches the folder it stands in, and what its process imports after code wrote there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from apps import fixture_server
from packages.fake_index import Index

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import asyncio, json, sys
from importlib.metadata import packages_distributions
import moonpool

servers = "../servers.json"
not_installed = {"brotli", "brotlicffi", "curio", "h2", "orjson", "org", "sitecustomize", "sniffio", "socksio",
                 "trio", "uvloop", "watchfiles", "yaml", "zstandard"}
names = {*packages_distributions(), *sys.stdlib_module_names, *not_installed}
names = sorted(name for name in names if name.isidentifier() and name not in sys.modules and name != "moonpool")
CODE = '''
for name in NAMES:
    open(name + ".py", "w").write("open(__file__ + '.ran', 'w').close()\\\\nraise ImportError")
'''

async def program():
    async with moonpool.session(workspace=".") as s:
        (await s.run(CODE.replace("NAMES", repr(names)))).check()
    async with moonpool.session(servers=servers, network=["a.example"], packages=["small"]) as s:
        await s.install("small")
        said = await s.run("from servers.echo import text\\n(await text(text='called')).data")
        await s.run("import urllib.request; urllib.request.urlopen('http://a.example')")
        await s.tools.search("text")
        print(json.dumps([said.data, "h11" in names, "winreg" in names]))
asyncio.run(program())
"""


@pytest.mark.timeout(120)
def test_no_file_of_code_runs_in_the_programs_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "folder").mkdir()
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    servers = {"echo": fixture_server("echo.py"), "gone": {"url": "http://127.0.0.1:9/mcp"}}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    index = Index(tmp_path)
    index.add("small")
    with index.served() as (address, _):
        monkeypatch.setenv("MOONPOOL_PACKAGE_INDEX", address)
        done = subprocess.run(
            [sys.executable, "program.py"], cwd=folder, capture_output=True, encoding="utf-8", timeout=110, check=False
        )
    assert [path.name for path in folder.glob("*.ran")] == []
    assert done.stdout == '["called", true, true]\n', done.stderr
