"""Run beside an internet of a test: ipybox's example of a custom sandbox, word for word, and hosts it leaves out."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from from_ipybox.examples import run_example
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


def main(folder: Path) -> None:
    (work := folder / "work" / "examples").mkdir(parents=True)
    (work / "sandbox-kernel.json").write_text(SETTINGS, encoding="utf-8")
    os.chdir(work.parent)
    with beside_an_internet(folder):
        scope = asyncio.run(run_example(CUSTOM, FETCH=FETCH))
    sys.stdout.write(json.dumps(scope["fetched"].text.splitlines()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
