"""Rows about what a sandbox withstands, and what it may not change."""

from __future__ import annotations

import anyio
import pytest

from apps import fixture_server, open_app, run
from moonpool.engine import execution
from moonpool.engine.code_request import CodeRequest

pytestmark = pytest.mark.anyio

EXHAUST = """
import errno, os, subprocess
ends = {}

try:
    bytearray(8 * 1024**3)
except MemoryError:
    ends["memory"] = "MemoryError"

held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    ends["descriptors"] = errno.errorcode[error.errno]
for fd in held:
    os.close(fd)

try:
    for number in range(8):
        with open(f"/workspace/fill-{number}", "wb") as file:
            for _ in range(64):
                file.write(bytes(1024**2))
except OSError as error:
    ends["disk"] = errno.errorcode[error.errno]
for number in range(8):
    if os.path.exists(f"/workspace/fill-{number}"):
        os.unlink(f"/workspace/fill-{number}")

children = []
try:
    for _ in range(500):
        children.append(subprocess.Popen(["/bin/sleep", "60"]))
except OSError as error:
    ends["processes"] = errno.errorcode[error.errno]
for child in children:
    child.kill()
    child.wait()

result = ends
"""


@pytest.mark.req("H-053", "H-072")
async def test_exhausting_a_sandbox_is_stopped_at_its_limits_and_it_works_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "GRACE_S", 20)  # it obeys, but a busy machine may take its time
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        with anyio.fail_after(60):
            exhausted = await session.execute(CodeRequest(code=EXHAUST.encode()))
            looped = await session.execute(CodeRequest(code=b"while True: pass", timeout_s=0.5))
            after = await session.execute(CodeRequest(code=b"result = ends['memory']"))
            neighbour = await run(app, "result = 1")
            await session.close()
    assert exhausted.data == {
        "memory": "MemoryError",
        "descriptors": "EMFILE",
        "disk": "ENOSPC",
        "processes": "EAGAIN",
    }
    assert looped.error is not None
    assert looped.error.type == "Timeout"
    assert (after.data, neighbour.data) == ("MemoryError", 1)


@pytest.mark.req("X-11")
async def test_both_trees_stand_in_workspace_and_code_cannot_change_them() -> None:
    code = """
import errno, os, sys
import mcptools.echo, servers.echo
ends = []
for name in ("servers/echo/evil.py", "mcptools/echo/evil.py", "servers/echo/__init__.py"):
    try:
        open(f"/workspace/{name}", "w")
    except OSError as error:
        ends.append(errno.errorcode[error.errno])
result = [ends, "/workspace" in sys.path, sorted(name for name in os.listdir("/workspace"))]
"""
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        with anyio.fail_after(30):
            envelope = await run(app, code)
    assert envelope.data == [["EROFS"] * 3, True, ["mcptools", "servers"]]
