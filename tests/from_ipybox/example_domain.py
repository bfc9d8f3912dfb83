"""Run beside an internet of a test: ipybox's example of a custom sandbox, word for word, and hosts it leaves out.

The MCP server is given the same settings.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from from_ipybox.examples import run_example
from from_ipybox.test_mcp_server import cell, profile
from network.fake_internet import beside_an_internet

SETTINGS = """
{
    "enableWeakerNestedSandbox": false,
    "filesystem": {
      "denyRead": [".env"],
      "allowWrite": [".", "~/Library/Jupyter", "~/.ipython"],
      "denyWrite": []
    },
    "network": {
      "allowedDomains": ["example.org"],
      "deniedDomains": [],
      "allowLocalBinding": true
    }
  }
"""
CUSTOM = '''
code = """
import requests
result = requests.get('https://example.org')
print(result.text)
"""
async with CodeExecutor(
    sandbox=True,
    sandbox_config=Path("examples/sandbox-kernel.json"),
    log_level="WARNING",
) as executor:
    result = await executor.execute(code)
    assert "Example Domain" in result.text
    fetched = await executor.execute(FETCH)
'''
FETCH = """
import requests
for host in ("example.org", "www.example.com", "sub.example.org"):
    print(host, requests.get(f"http://{host}/").status_code)
"""


async def fetched_by_the_server(work: Path) -> str:
    environ = {name: value for name, value in os.environ.items() if name.startswith("MOONPOOL_")}
    options = ["--sandbox", "--sandbox-config", "examples/sandbox-kernel.json"]
    async with profile(work, *options, **environ, MOONPOOL_ENVIRONMENT="data") as (client, _):
        return await cell(client, FETCH)


def main(folder: Path) -> None:
    (work := folder / "work" / "examples").mkdir(parents=True)
    (work / "sandbox-kernel.json").write_text(SETTINGS, encoding="utf-8")
    os.chdir(work.parent)
    with beside_an_internet(folder):
        scope = asyncio.run(run_example(CUSTOM, FETCH=FETCH))
        served = asyncio.run(fetched_by_the_server(work.parent))
    sys.stdout.write(json.dumps([scope["fetched"].text.splitlines(), served.splitlines()]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
