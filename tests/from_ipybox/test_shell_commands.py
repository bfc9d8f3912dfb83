"""`approve_shell_cmds` and `require_shell_escape`. They need IPython, whose zygote takes seconds to start."""

from __future__ import annotations

from typing import Any

import pytest

from moonpool.ipybox import (
    ApprovalClient,
    ApprovalRequest,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutor,
    ExecutionError,
    KernelClient,
    KernelGateway,
    ToolServer,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def with_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOONPOOL_ENVIRONMENT")


async def asked(executor: CodeExecutor, code: str, *, accept: bool = True) -> tuple[list[tuple[str, str, Any]], Any]:
    """What was asked, and the text."""
    requests: list[tuple[str, str, Any]] = []
    text: str | None = None
    async for item in executor.stream(code, timeout=60):
        if isinstance(item, ApprovalRequest):
            requests.append((item.server_name, item.tool_name, item.tool_args["cmd"]))
            await (item.accept() if accept else item.reject())
        elif isinstance(item, CodeExecutionResult):
            text = item.text
    return requests, text


@pytest.mark.req("I-049", "P-019")
async def test_shell_commands_are_asked_about_and_nothing_else_starts_a_process() -> None:
    async with CodeExecutor(approve_shell_cmds=True, require_shell_escape=True, approve_tool_calls=False) as executor:
        for code, tool, command, text in (
            ("!echo hello", "shell", "echo hello", "hello"),
            ("word = 'there'\n!echo {word} $word", "shell", "echo there there", "there there"),
            ("!echo {nobody}", "shell", "echo {nobody}", "{nobody}"),
            ("x = !echo one; echo two\nprint(x)", "shell", "echo one; echo two", "['one', 'two']"),
            ("word = '$HOME{x}'\n!echo '{word}'", "shell", "echo '$HOME{x}'", "$HOME{x}"),  # it is filled in once
            ("%%bash\necho a\necho $((1 + 1))", "shell_magic", "echo a\necho $((1 + 1))\n", "a\n2"),
            ("%%sh\necho {word}", "shell_magic", "echo {word}\n", "{word}"),
        ):
            assert await asked(executor, code) == ([("ipybox", tool, command)], text), code
        assert (await executor.execute("!echo unasked")).text == "unasked"
        for code in (
            "!touch made", "%%bash\ntouch made", "%%perl\nopen F, '>made'", "%%python3\nopen('made', 'w')",
            "%%ruby\n1", "%%script sh\ntouch made", "%%bash\ntouch made",
        ):  # fmt: skip
            with pytest.raises(CodeExecutionError, match="ApprovalRejectedError"):
                await asked(executor, code, accept=False)
        with pytest.raises(CodeExecutionError, match="CalledProcessError"):
            await asked(executor, "%%bash\nexit 3")
        assert (await executor.execute("import os; print(os.path.exists('made'))")).text == "False"
        guarded = (
            ("import subprocess; subprocess.run(['true'])", "Direct subprocess calls"),
            ("import os; os.system('true')", r"Direct os\.system\(\) calls"),
            ("import os; os.popen('true')", "Direct subprocess calls"),
            ("import os; os.posix_spawn('/bin/true', ['true'], {})", r"Direct os\.posix_spawn\(\) calls"),
            ("import pty; pty.spawn('true')", r"Direct pty\.spawn\(\) calls"),
        )
        for end in ("", "import os; os._exit(0)"):  # the next kernel has the same guards
            if end:
                with pytest.raises(CodeExecutionError, match="KernelExited"):
                    await executor.execute(end)
            for code, told in guarded:
                with pytest.raises(CodeExecutionError, match=f"{told} are not allowed. Use ! syntax."):
                    await executor.execute(code)
            assert await asked(executor, "!echo on") == ([("ipybox", "shell", "echo on")], "on")


async def test_processes_start_freely_where_only_commands_are_asked_about() -> None:
    async with CodeExecutor(approve_shell_cmds=True, approval_timeout=0.2) as executor:
        code = "import subprocess; print(subprocess.run(['echo', 'on'], capture_output=True, text=True).stdout)"
        assert await asked(executor, code) == ([], "on")
        with pytest.raises(CodeExecutionError, match="ApprovalTimeoutError"):
            [item async for item in executor.stream("!echo late")]


async def test_a_kernel_without_executor_asks_a_tool_server() -> None:
    async def decide(request: ApprovalRequest) -> None:
        await (request.accept() if "fine" in request.tool_args["cmd"] else request.reject())

    async with (
        ToolServer(port=0, approval_required=True) as server,
        ApprovalClient(decide, port=server.port),
        KernelGateway(port=3),
        KernelClient(port=3, approve_shell_cmds=True, tool_server_port=server.port) as client,
    ):
        assert (await client.execute("!echo fine")).text == "fine"
        with pytest.raises(ExecutionError, match="ApprovalRejectedError"):
            await client.execute("!echo other")
