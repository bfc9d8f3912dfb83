"""`KernelGateway` and `KernelClient`: their shape, without a port."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio
import pytest

from apps import fixture_server
from from_ipybox.processes import processes_with
from moonpool.ipybox import ApprovalClient, ApprovalRequest, ToolServer, generate_mcp_sources
from moonpool.ipybox.kernel_mgr.client import ExecutionError, ExecutionResult, KernelClient
from moonpool.ipybox.kernel_mgr.server import KernelGateway

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio
SERVER = {key: value for key, value in fixture_server("echo.py").items() if key != "moonpool"}


async def interrupted(client: KernelClient) -> None:
    async for _ in client.stream("print('on', flush=True)\nwhile True: pass"):
        await client.interrupt()


async def test_clients_have_one_kernel_at_a_time_and_wait_for_the_end_of_code() -> None:
    client = KernelClient(port=1)
    async with KernelGateway(port=1) as gateway:
        outcomes = await asyncio.gather(client.connect(), client.connect(), return_exceptions=True)
        assert [type(one) for one in outcomes] == [type(None), RuntimeError]
        stream = client.stream("print('on', flush=True)\nimport time; time.sleep(600)")
        async for _ in stream:
            break
        with anyio.fail_after(60):
            await stream.aclose()
        assert client._connected is not None
        assert not client._connected[1]._running
        await asyncio.gather(client.reset(), client.disconnect())
        assert not gateway._kernels


@pytest.mark.req("I-068", "I-069", "I-070")
async def test_a_client_runs_code_in_a_kernel_of_a_gateway() -> None:
    client = KernelClient(port=1)
    with pytest.raises(RuntimeError, match="no kernel gateway runs at localhost:1"):
        await client.connect(retries=2, retry_interval=0)
    with pytest.raises(RuntimeError, match="Not connected"):
        _ = client.kernel_id
    async with KernelGateway(port=1, env={"A": "of the gateway"}) as gateway:
        with pytest.raises(RuntimeError, match="already"):
            await gateway.start()
        async with client:
            first = client.kernel_id
            result = await client.execute("import os; x = 1; print(os.environ['A'])")
            assert result == ExecutionResult(text="of the gateway", images=[])
            assert [item async for item in client.stream("print(x)")] == ["1\n", ExecutionResult("1", [])]
            with pytest.raises(ExecutionError, match="ZeroDivisionError"):
                await client.execute("1 / 0")
            with pytest.raises(TimeoutError, match=r"0\.20s"):
                await client.execute("while True: pass", timeout=0.2)
            with pytest.raises(ExecutionError, match="Cancelled"):
                await interrupted(client)
            assert (await client.execute("print(x)")).text == "1"
            await client.reset()
            assert client.kernel_id != first
            with pytest.raises(ExecutionError, match="NameError"):
                await client.execute("print(x)")
            mark = f"deaf-{uuid4()}"  # a child that takes no SIGTERM
            started = (
                f"import subprocess\np = subprocess.Popen(['bash', '-c', 'trap \"\" TERM; read', '{mark}'], stdin=-1)"
            )
            await client.execute(started)
            assert len(await asyncio.to_thread(processes_with, mark, "cmdline")) == 1
            joined = asyncio.ensure_future(gateway.join())
            await gateway.stop()
            await gateway.stop()
            with anyio.fail_after(10):
                await joined
            assert await asyncio.to_thread(processes_with, mark, "cmdline") == set()
            with pytest.raises(RuntimeError, match="Not connected"):
                await client.execute("1")
    with pytest.raises(ValueError, match="requires approve_shell_cmds"):
        KernelClient(require_shell_escape=True)


async def test_a_tool_server_answers_for_tool_calls_of_a_kernel(project: Path) -> None:
    async def decide(request: ApprovalRequest) -> None:
        await (request.accept() if request.tool_args == {"text": "fine"} else request.reject())

    def call(text: str) -> str:
        return f"from mcptools.echo import text\nprint(text.run(text.Params(text={text!r})))"

    async with ToolServer(port=0, approval_required=True) as server, ApprovalClient(decide, port=server.port):
        env = {"TOOL_SERVER_PORT": str(server.port)}
        async with KernelGateway(port=4, env=env), KernelClient(port=4) as client:
            await client.execute("x = 1")
            await generate_mcp_sources("echo", SERVER, project / "mcptools")
            assert (await client.execute(f"{call('fine')}\nprint(x)")).text == "fine\n1"
            with pytest.raises(ExecutionError, match="ApprovalRejected"):
                await client.execute(call("other"))
            await server.stop()
            with pytest.raises(ExecutionError, match=r"(?s)ApprovalRejected.*echo\.text: no tool server of yours runs"):
                await client.execute(call("fine"))


async def test_gateway_and_client_may_live_in_different_loops_and_threads() -> None:
    started, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with KernelGateway(port=2):
            started.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert await asyncio.to_thread(started.wait, 30)
        async with KernelClient(port=2) as client:
            assert (await client.execute("print(6 * 7)")).text == "42"
    finally:
        done.set()
        await asyncio.to_thread(thread.join)
