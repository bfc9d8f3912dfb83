"""Everything over both HTTP transports: servers and `moonpool run` are in a network namespace of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apps import DATA
from published import servers

pytestmark = pytest.mark.slow

PORTS = {"streamableHttp": 3001, "sse": 3002}
ENTRIES = {
    "http": {"type": "http", "url": f"http://127.0.0.1:{PORTS['streamableHttp']}/mcp"},
    "sse": {"type": "sse", "url": f"http://127.0.0.1:{PORTS['sse']}/sse"},
    "found": {"url": f"http://127.0.0.1:{PORTS['sse']}/sse"},
}
CODE = """
import asyncio
from servers import found, http, sse

def tell(call):
    return call.data if call.ok else call.error["type"]

result = {}
for name, every in (("http", http), ("sse", sse), ("found", found)):
    together = await asyncio.gather(*(every.echo(message=str(n)) for n in range(8)))
    left = asyncio.ensure_future(every.trigger_long_running_operation(duration=60, steps=60))
    slow = await every.trigger_long_running_operation(duration=0.2, steps=2)
    left.cancel()
    result[name] = {
        "echoed": [tell(call) for call in together],
        "slow": tell(slow).split(".")[0],
        "kinds": [block["type"] for block in tell(await every.get_tiny_image())],
        "weather": tell(await every.get_structured_content(location="Chicago"))["humidity"],
        "read": tell(await every.mcp_resources_read(uri="demo://resource/dynamic/text/7"))["contents"][0]["mimeType"],
        "wrong": tell(await every.mcp_resources_read(uri="demo://nothing")),
        "prompt": tell(await every.mcp_prompts_get(name="simple-prompt"))["messages"][0]["role"],
    }
"""
EXPECTED = {
    "echoed": [f"Echo: {n}" for n in range(8)],
    "slow": "Long running operation completed",
    "kinds": ["text", "image", "text"],
    "weather": 82,
    "read": "text/plain",
    "wrong": "UpstreamError",
    "prompt": "user",
}


def test_everything_answers_over_both_http_transports(tmp_path: Path) -> None:
    block: dict[str, Any] = {"moonpool": {"trusted": True, "allow": ["*"]}}
    document = {"mcpServers": {name: {**entry, **block} for name, entry in ENTRIES.items()}}
    (tmp_path / "servers.json").write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "code.py").write_text(CODE, encoding="utf-8")
    script = Path(__file__).with_name("inside.py")
    started = [f"{transport}={port}" for transport, port in PORTS.items()]
    inside = [sys.executable, script, tmp_path, *servers.node_server("everything"), *started]
    done = subprocess.run(
        [*_own_network(), *inside],
        capture_output=True, check=False, env={**os.environ, "MOONPOOL_DATA_DIR": str(DATA)}, timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    assert json.loads(done.stdout)["result"]["data"] == dict.fromkeys(ENTRIES, EXPECTED)


def _own_network() -> list[str]:
    """The namespace's loopback must be lifted; an ordinary user is only let in a user namespace of their own."""
    if os.geteuid() == 0:
        return ["unshare", "--net"]
    return ["unshare", "--user", "--map-current-user", "--keep-caps", "--net"]
