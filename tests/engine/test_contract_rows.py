"""Rows of the runtime contract that need the whole pipeline: real sandbox, real broker, real MCP server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import anyio
import pytest

from apps import fixture_server, open_app, run
from moonpool.engine.code_request import CodeRequest
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

pytestmark = pytest.mark.anyio

GUIDE_PYTHON = """
import asyncio
import json
import sys

import servers.sheets as sheets

async def main():
    rows = await sheets.get_all_rows({"sheetId": "quarterly"})
    print(f"Processing {len(rows)} rows…", file=sys.stderr)

    metrics = calculate_metrics(rows)
    anomalies = detect_anomalies(rows)

    global result
    result = {
        "summary": metrics["summary"],
        "anomaly_count": len(anomalies),
    }

asyncio.run(main())
"""
GUIDE_HELPERS = """
def calculate_metrics(rows): return {"summary": sum(row["amount"] for row in rows)}
def detect_anomalies(rows): return [row for row in rows if row["amount"] > 100]
"""


@pytest.mark.req("H-030", "H-045", "H-094", "H-095", "H-007", "H-012", "X-26")
async def test_the_guides_python_sample_runs_unchanged() -> None:
    async with open_app({"sheets": fixture_server("sheets.py", "sheets")}) as app:
        with anyio.fail_after(30):
            envelope = await run(app, GUIDE_HELPERS + GUIDE_PYTHON)
    assert envelope.error is None
    assert envelope.data == {"summary": 242.75, "anomaly_count": 1}
    assert envelope.extras["stderr"] == "Processing 3 rows…\n"


@pytest.mark.req("H-007", "H-012", "H-028", "X-26")
async def test_the_guides_wrapper_stub_runs_unchanged() -> None:
    code = """
from typing import Any, TypedDict
from client.mcp_client import call_tool

class GetDocumentInput(TypedDict):
    documentId: str

async def get_document(arguments: GetDocumentInput) -> dict[str, Any]:
    return await call_tool(server_id="google-drive", name="get_document", arguments=arguments)

doc = await get_document({"documentId": "abc123"})
import servers.google_drive as gdrive
from servers.google_drive import get_document as generated
same = await generated({"documentId": "abc123"})
result = [doc.structuredContent["content"], doc["content"], same == doc, type(same).__name__]
"""
    async with open_app({"google-drive": fixture_server("sheets.py", "gdrive")}) as app:
        with anyio.fail_after(30):
            envelope = await run(app, code)
    assert envelope.error is None
    assert envelope.data == ["Text of abc123.", "Text of abc123.", True, "ToolCallResult"]


@pytest.mark.slow
@pytest.mark.req("H-096")
async def test_fifty_megabytes_stay_inside_and_one_number_comes_out() -> None:
    code = """
import servers.echo as echo
big = await echo.big(n=50_000_000)
result = len(big.text)
"""
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        with anyio.fail_after(60):
            envelope = await run(app, code)
    assert envelope.error is None
    assert envelope.data == 50_000_000
    assert len(json.dumps(envelope.to_json())) < 4096


@pytest.mark.req("H-035", "H-078", "H-091")
async def test_a_tool_that_appears_is_importable_at_the_next_execution() -> None:
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        session = app.runtime.session(app.caller_grant)
        first = await session.execute(
            CodeRequest(
                code=b"import servers.echo as e\nbefore = set(dir(e))\n"
                b"result = (await e.list_change(name='brand_new')).ok"
            )
        )
        assert first.data is True
        changed = anyio.Event()
        app.tool_registry.follow(lambda _: changed.set())
        with anyio.fail_after(30):
            if (
                app.tool_registry.current is not None
                and app.tool_registry.current.manifest.find("echo", "brand_new") is None
            ):
                await changed.wait()
            second = await session.execute(
                CodeRequest(code=b"import servers.echo as e\nresult = sorted(set(dir(e)) - before)")
            )
        await session.close()
    assert "brand_new" in second.data


@pytest.mark.req("H-090", "H-074")
async def test_a_destructive_call_without_approval_never_reaches_the_server(tmp_path: Path) -> None:
    record = tmp_path / "calls.jsonl"
    listing = tmp_path / "tools.json"
    tool = {"name": "drop_table", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}
    listing.write_text(json.dumps({"tools": [tool]}), encoding="utf-8")
    server = fixture_server("recorder.py", str(listing), str(record), timeout_s=20)
    from moonpool.pipeline.approval import DenyApprover

    async with open_app({"db": server}, approver=DenyApprover()) as app:
        with anyio.fail_after(30):
            envelope = await run(app, "import servers.db as db\n(await db.drop_table()).unwrap()")
    assert envelope.error is not None
    assert envelope.error.type == "ApprovalRejected"
    assert str(envelope.approval_state) == "REJECTED"
    assert not record.exists()


@pytest.mark.req("H-055", "H-061", "H-022", "P-023", "C-027")
async def test_a_servers_secret_is_nowhere_in_the_sandbox_and_redacted_in_every_output(tmp_path: Path) -> None:
    canary = "canary-7f3a9c51d2e8"
    server = fixture_server("echo.py")
    server["env"] = {"API_TOKEN": canary}
    half = len(canary) // 2
    code = f"""
import os, sys, glob
import servers.echo as e
half_a, half_b = {canary[:half]!r}, {canary[half:]!r}
found = [p for p in ("/proc/self/environ", "/proc/self/cmdline") if half_a + half_b in open(p, errors="replace").read()]
found += [k for k, v in os.environ.items() if half_a + half_b in v]
sys.stdout.write("say " + half_a); sys.stdout.flush()
sys.stdout.write(half_b + "\\n"); sys.stdout.flush()
echoed = await e.echo(value=half_a + half_b)
result = {{"found": found, "secret": half_a + half_b, "echoed": echoed.data}}
"""
    async with open_app({"echo": server}) as app:
        with anyio.fail_after(30):
            envelope = await run(app, code)
    assert envelope.error is None
    assert canary not in json.dumps(envelope.to_json())
    assert envelope.data["found"] == []
    assert envelope.extras["stdout"].startswith("say [REDACTED:")


@pytest.mark.req("H-022")
async def test_secrets_and_chosen_personal_data_are_redacted_by_their_shape_in_every_output() -> None:
    token, mail = "ghp_" + "a1B2" * 9, "jo@example.org"
    code = """
import sys
token = "ghp_" + "a1B2" * 9
for stream in (sys.stdout, sys.stderr):
    parts = ["TOKEN ", token[:9], token[9:20], token[20:], " DB_PASS", "WORD=hun", "ter2\\n", "jo@exa", "mple.org\\n"]
    for part in parts:
        stream.write(part); stream.flush()
if {fails}:
    raise ValueError("failed for " + token + " with password: 'geheim'")
result = {"token": token, "password": "geheim", "mail": "jo@example.org", "next_page_token": "p1234567890"}
"""
    async with open_app(redact_personal="email") as app:
        kept = await run(app, code.replace("{fails}", "False"))
        failed = await run(app, code.replace("{fails}", "True"))
        rows = await asyncio.to_thread(list, read_rows(journal_path(app.data)))
    told = json.dumps([kept.to_json(), failed.to_json()])
    assert not [secret for secret in (token, "hunter2", "geheim", mail) if secret in told]
    assert not [row for row in rows if token.encode() in row.body]
    for stream in ("stdout", "stderr"):
        printed = kept.extras[stream]
        assert printed == "TOKEN [REDACTED:github_pat] DB_PASSWORD=[REDACTED:password]\n[REDACTED:email]\n"
    assert kept.data == {
        "token": "[REDACTED:github_pat]",
        "password": "[REDACTED:password]",
        "mail": "[REDACTED:email]",
        "next_page_token": "p1234567890",
    }


@pytest.mark.req("H-020")
@pytest.mark.parametrize("over", [-1, 0, 1], ids=["below the limit", "at the limit", "above the limit"])
async def test_kept_output_keeps_to_its_bytes_with_multi_byte_text(over: int) -> None:
    async with open_app(stdout_bytes_max=4096, stderr_bytes_max=8192) as app:
        size = 4096 + over
        code = f"import sys\nsys.stdout.write('é' * {size // 2} + 'x' * {size % 2})"
        envelope = await run(app, code)
    kept = envelope.extras["stdout"]
    assert envelope.result["metrics"]["stdout_bytes"] == size
    assert len(kept.encode()) <= 4096
    assert ("left out" in kept) is (over > 0)


@pytest.mark.req("H-021")
async def test_a_result_of_ten_megabytes_becomes_a_typed_error() -> None:
    async with open_app() as app:
        envelope = await run(app, 'result = "x" * 10_000_000')
    assert envelope.error is not None
    assert envelope.error.type == "OutputTooLarge"
    assert "10,000,002 bytes" in envelope.error.message


@pytest.mark.req("H-018", "H-053")
@pytest.mark.parametrize(
    ("code", "error_type"),
    [
        pytest.param("import os; os._exit(7)", "KernelExited", id="os._exit"),
        pytest.param("import ctypes; ctypes.string_at(0)", "KernelKilled", id="segfault"),
        pytest.param("while True: pass", "Timeout", id="busy loop"),
        pytest.param("x = bytearray(8 << 30)", "MemoryError", id="8 GiB"),
        pytest.param(
            "import os\nfor fd in range(3, 30):\n  try: os.close(fd)\n  except OSError: pass", "*", id="closes fds"
        ),
        pytest.param("def f(): return f()\nf()", "RecursionError", id="recursion"),
        pytest.param("print('x' * 60_000_000)", "OutputTooLarge", id="output flood"),
        pytest.param(
            "import os; os.write(3, b'junk junk junk'); import time; time.sleep(9)", "ProtocolViolation", id="junk"
        ),
        pytest.param("import sys; sys.exit('gone wrong')", "SystemExit", id="sys.exit with text"),
        pytest.param("raise BaseException('bare')", "BaseException", id="BaseException"),
        pytest.param("import signal, os; os.kill(os.getpid(), signal.SIGKILL)", "*", id="SIGKILL to itself"),
    ],
)
async def test_every_ending_gives_one_envelope(code: str, error_type: str) -> None:
    async with open_app() as app:
        with anyio.fail_after(60):
            envelope = await run(app, code, timeout_s=2.0 if error_type == "Timeout" else 30.0)
    assert json.loads(json.dumps(envelope.to_json()))["result"]["ok"] is (envelope.error is None)
    if error_type != "*":
        assert envelope.error is not None
        assert envelope.error.type == error_type


async def test_an_uncaught_failure_of_a_tool_keeps_its_type_and_whether_it_may_be_retried() -> None:
    server = fixture_server("echo.py", allow=["*"], idempotent=["*"], timeout_s=0.5)
    async with open_app({"echo": server}) as app:
        with anyio.fail_after(30):
            envelope = await run(app, "import servers.echo as e\n(await e.sleep(seconds=60)).unwrap()")
    assert envelope.error is not None
    assert (envelope.error.type, envelope.error.retryable) == ("Timeout", True)


async def test_a_small_call_may_overtake_a_large_one() -> None:
    code = """
import asyncio
import servers.echo as e
answers = await asyncio.gather(*(e.length(text="x" * size) for size in (3_000_000, 1, 2)))
result = [answer["length"] for answer in answers]
"""
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        with anyio.fail_after(30):
            envelope = await run(app, code, timeout_s=20.0)
    assert envelope.data == [3_000_000, 1, 2]
