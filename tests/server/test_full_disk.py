"""A service whose files may not grow: calls are refused in one sentence, nothing leaves or is half stored, and later it
works again.
"""

from __future__ import annotations

import json
import resource
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from apps import fixture_server
from cli.console import moonpool
from server.services import execute
from server.test_serve_command import Serving

if TYPE_CHECKING:
    from pathlib import Path

PUT = "import servers.recorder as r\nresult = await r.put(word={!r})"


@pytest.mark.slow
@pytest.mark.claim("C-WEB-3")
@pytest.mark.req("H-059")
def test_while_no_file_may_grow_nothing_leaves_and_later_it_works(tmp_path: Path) -> None:
    listed, seen, state = tmp_path / "tools.json", tmp_path / "seen.jsonl", tmp_path / "state"
    listed.write_text(json.dumps([{"name": "put", "inputSchema": {"type": "object"}}]), encoding="utf-8")
    config = tmp_path / "servers.json"
    servers = {"recorder": fixture_server("recorder.py", str(listed), str(seen))}
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    with Serving(tmp_path, "--data-dir", str(state), "--config", str(config)) as serving:
        base = serving.url.removesuffix("/mcp")

        def put(word: str) -> Any:
            return json.loads(serving.post(execute(PUT.format(word))).json()["result"]["content"][0]["text"])

        def by_one_call(code: str) -> httpx2.Response:
            return httpx2.post(f"{base}/v1/sandbox/execute", json={"code": code, "thread_id": "t"}, timeout=60)

        def upload() -> httpx2.Response:
            headers = {one["name"]: one["value"] for one in signed["headers"]}
            return httpx2.put(signed["url"], content=b"up", headers=headers, timeout=60)

        assert put("first")["ok"]
        assert by_one_call("open('a', 'w').write('1')").json()["success"]
        asked = {"source": "thread", "id": "t", "path": "up", "content_length": 2}
        signed = httpx2.post(f"{base}/v1/files/upload_url", json=asked, timeout=60).json()
        session = httpx2.post(f"{base}/v1/sessions", json={}, timeout=60).json()["id"]
        unlimited = resource.prlimit(serving.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(serving.process.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
        refused = [put("second"), put("third")]
        unavailable = [by_one_call("open('a', 'w').write('2')"), upload()]
        run = {"code": PUT.format("fourth"), "language": "python"}
        lines = httpx2.post(f"{base}/v1/sessions/{session}/executions", json=run, timeout=60).text.splitlines()
        ready = httpx2.get(f"{base}/healthz")
        resource.prlimit(serving.process.pid, resource.RLIMIT_FSIZE, unlimited)
        assert put("last")["ok"]
        kept = by_one_call("import os; print(os.path.exists('up'), open('a').read())")
        assert upload().json()["size"] == 2
    said = "".join(serving.said)

    assert [one["ok"] for one in refused] == [False, False]
    for one in (*refused, json.loads(lines[-1])):
        assert "journal" in json.dumps(one), one
    for one in unavailable:
        assert (one.status_code, one.json()["error"], "log says why" in one.json()["message"]) == (
            503, "service_unavailable", True,
        )  # fmt: skip
    assert kept.json()["stdout"] == "False 1\n"
    assert ready.status_code == 200
    assert "Traceback" not in said
    assert [json.loads(line)["arguments"]["word"] for line in seen.read_text("utf-8").splitlines()] == ["first", "last"]
    verified = moonpool(tmp_path, "audit", "verify", "--data-dir", state)
    assert (verified.exit_code, b"chain whole" in verified.stdout) == (0, True), verified.stderr
