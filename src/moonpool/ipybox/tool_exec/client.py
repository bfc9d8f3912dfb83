"""`ToolRunner`: calls tools through a `ToolServer` of the same user."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx2
from pydantic_core import to_jsonable_python

from moonpool.ipybox.registered_servers import describe
from moonpool.ipybox.tool_exec.addresses import access_to

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToolRunnerError(Exception):
    """A tool failed, or could not be called."""


class ApprovalRejectedError(ToolRunnerError):
    """The call was refused."""


class ApprovalTimeoutError(ToolRunnerError):
    """Nobody answered in time."""


class ToolRunner:
    """Calls the tools of one MCP server. From any event loop and thread."""

    def __init__(
        self, server_name: str, server_params: dict[str, Any], host: str = "localhost", port: int = 8900
    ) -> None:
        """`host` and `port` are those of a `ToolServer`.

        `server_params` are for tool servers of this process, and never sent: one of another process knows the server if
        `generate_mcp_sources` has made its package.
        """
        self.server_name, self.server_params = server_name, server_params
        self.host, self.port = host, port
        if server_params:
            describe(server_name, server_params)

    async def reset(self) -> None:
        """End the MCP servers of the tool server. Raises ToolRunnerError."""
        await reset(self.host, self.port)

    async def run(self, tool_name: str, tool_args: dict[str, Any]) -> dict[str, Any] | str | None:
        """The result of a call: its structured content, else its text, else None.

        Waits for approval as long as it takes. Raises ApprovalRejectedError, ApprovalTimeoutError, ToolRunnerError.
        """
        answer = await request(self.host, self.port, "/run", self._body(tool_name, tool_args))
        return answer["result"]

    def run_sync(self, tool_name: str, tool_args: dict[str, Any]) -> dict[str, Any] | str | None:
        """`run`, blocking."""
        return request_sync(self.host, self.port, "/run", self._body(tool_name, tool_args))["result"]

    def _body(self, tool_name: str, tool_args: dict[str, Any]) -> dict[str, Any]:
        return {"server_name": self.server_name, "tool_name": tool_name, "tool_args": tool_args}


async def reset(host: str = "localhost", port: int = 8900) -> None:
    """End the MCP servers of a tool server; they start again at their next call. Raises ToolRunnerError."""
    await request(host, port, "/reset", None, method="PUT")


async def request(
    host: str, port: int, path: str, body: Mapping[str, Any] | None, *, method: str = "POST"
) -> dict[str, Any]:
    """What a tool server answers. Raises ToolRunnerError and what derives from it."""
    content = _written(body)
    url, options = await asyncio.to_thread(_prepared, host, port, path)
    async with httpx2.AsyncClient(**options) as client:
        try:
            response = await client.request(method, url, content=content)
        except httpx2.HTTPError as error:
            raise _unreachable(host, port, error) from error
    return _answer(response)


def request_sync(host: str, port: int, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """`request`, blocking."""
    content = _written(body)
    url, options = _prepared(host, port, path)
    with httpx2.Client(**options) as client:
        try:
            response = client.post(url, content=content)
        except httpx2.HTTPError as error:
            raise _unreachable(host, port, error) from error
    return _answer(response)


def _written(body: Mapping[str, Any] | None) -> bytes | None:
    if body is None:
        return None
    try:
        return json.dumps(to_jsonable_python(body), ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:  # an object that is no JSON, half a surrogate pair, nan, a circle
        raise ToolRunnerError(f"the call cannot be written as JSON: {error}") from None


def _prepared(host: str, port: int, path: str) -> tuple[str, dict[str, Any]]:
    try:
        address, access = access_to(host, port)
    except RuntimeError as error:
        raise ToolRunnerError(str(error)) from None
    headers = {"Authorization": f"Bearer {access.call}", "Content-Type": "application/json"}
    return f"http://{address.netloc}{path}", {"headers": headers, "timeout": None, "trust_env": False}


def _unreachable(host: str, port: int, error: Exception) -> ToolRunnerError:
    return ToolRunnerError(f"the tool server at {host}:{port} does not answer: {error or type(error).__name__}")


def _answer(response: httpx2.Response) -> dict[str, Any]:
    answer: dict[str, Any] = response.json()
    if "error" in answer:
        kinds = {"rejected": ApprovalRejectedError, "timeout": ApprovalTimeoutError}
        raise kinds.get(answer.get("type", ""), ToolRunnerError)(answer["error"])
    return answer
