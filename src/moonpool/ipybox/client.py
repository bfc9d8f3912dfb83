"""`MCPClient`: one MCP server for a program on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeAlias

from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

from moonpool.core.errors import ConfigError
from moonpool.ipybox.options import ExecutorOptions
from moonpool.ipybox.tool_exec.host_tools import NO_EVENTS, answer_of
from moonpool.sdk.approve_functions import in_a_thread
from moonpool.sdk.session_handle import SessionHandle

if TYPE_CHECKING:
    from moonpool.core.calls import ToolCallOutcome
    from moonpool.features.approvals.events import ApprovalQuestion

ToolResult: TypeAlias = "dict[str, Any] | str | None"
_NAME = "server"


class MCPClient:
    """Starts a server or connects to it. Use it with `async with`, or `start` and `stop`.

    Its calls are decided by policy and recorded like all others; nobody can be asked about them here.
    """

    def __init__(self, server_params: dict[str, Any], connect_timeout: float = 10) -> None:
        """`server_params` as for `generate_mcp_sources`; `connect_timeout` is seconds."""
        self.server_params, self.connect_timeout = server_params, connect_timeout
        self._session: SessionHandle | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Connect. Raises RuntimeError when it is started, ConfigError when the server cannot be reached."""
        if self._session is not None:
            raise RuntimeError("this client is started already")
        options = ExecutorOptions(
            environment="base",
            given={_NAME: self.server_params},
            connect_timeout=self.connect_timeout,
            asks=False,
            apart=object(),
        )
        self._session = SessionHandle(options, NO_EVENTS, lambda: in_a_thread)
        try:
            await self.list_tools()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Disconnect; a process that was started ends. Stopping twice is fine."""
        session, self._session = self._session, None
        if session is not None and (closing := session.close()) is not None:
            await closing.wait()

    async def list_tools(self) -> list[Tool]:
        """The tools of the server as it describes them. Raises ConfigError, RuntimeError."""
        snapshot = await self._started.call_here(lambda hosted: hosted.relisted(_NAME)).wait()
        if _NAME in snapshot.problems:
            raise ConfigError(snapshot.problems[_NAME])
        return [Tool.model_validate(tool.raw) for listing in snapshot.manifest.servers for tool in listing.tools]

    async def run(self, tool_name: str, tool_args: dict[str, Any]) -> ToolResult:
        """The result of a call: its structured content, else its text, else None. Raises Exception when it fails."""
        answer: dict[str, Any] = answer_of(await _called(self._started, tool_name, tool_args))
        if "error" in answer:
            raise Exception(answer["error"])  # noqa: TRY002  as in ipybox
        return answer["result"]

    @property
    def session(self) -> MCPSession:
        """Lists and calls tools as the MCP SDK's `ClientSession` does. Raises RuntimeError when not started."""
        return MCPSession(self, self._started)

    @property
    def _started(self) -> SessionHandle:
        if self._session is None:
            raise RuntimeError("MCP client not started")
        return self._session


class MCPSession:
    """Tools as the MCP SDK's `ClientSession` has them; its other methods are not here."""

    def __init__(self, client: MCPClient, started: SessionHandle) -> None:
        self._client, self._started = client, started

    async def list_tools(self) -> ListToolsResult:
        """The tools of the server as it describes them. Raises ConfigError."""
        return ListToolsResult(tools=await self._client.list_tools())

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> CallToolResult:
        """The result of a call, as the server gave it; of one that failed or was refused, why, with `is_error`."""
        outcome = await _called(self._started, name, arguments or {})
        if (error := outcome.error) is not None:
            return CallToolResult(content=[TextContent(type="text", text=error.message)], is_error=True)
        return CallToolResult.model_validate({"content": [], **(outcome.raw or {})})


async def _called(started: SessionHandle, name: str, arguments: dict[str, Any]) -> ToolCallOutcome:
    return await started.call_here(lambda hosted: hosted.call_tool(_NAME, name, arguments, _refuse)).wait()


def _refuse(question: ApprovalQuestion) -> None:
    question.give_up("nobody can be asked by an MCPClient; use a ToolServer")
