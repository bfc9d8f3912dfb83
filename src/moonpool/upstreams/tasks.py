"""Calls that a server carries out as tasks: created, asked about, fetched, cancelled (2025-11-25, experimental).

Only where the server's configuration says `"tasks": true`, the server declares them for tool calls, and the tool cannot
be called otherwise (`taskSupport` is `required`). 2026-07-28 has no such tasks.

SECURITY: id, status and poll interval of a task come from the server: bounded and compared, never shown. The call's own
time limit bounds the waiting; a call that is given up cancels its task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from moonpool.upstreams.base import UpstreamError, UpstreamResultError
from moonpool.upstreams.open_call import OPEN_CALL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.core.manifest import ToolDefinition

REVISION: Final = "2025-11-25"
POLL_S_DEFAULT: Final = 1.0
POLL_S_MIN: Final = 0.1
POLL_S_MAX: Final = 10.0
KEPT_MS: Final = 3_600_000
"""How long the server is asked to keep a task; it outlives every call."""
_CANCEL_S: Final = 2.0
_ID_CHARS_MAX: Final = 256
_OVER: Final = frozenset({"completed", "failed", "cancelled"})
_UNDER_WAY: Final = "working"


def supports_tasks(capabilities: JsonValue) -> bool:
    """Whether a server takes tool calls as tasks."""
    found = capabilities
    for name in ("tasks", "requests", "tools", "call"):
        found = found.get(name) if isinstance(found, dict) else None
    return isinstance(found, dict)


def tools_that_require_tasks(tools: Iterable[ToolDefinition]) -> frozenset[str]:
    """Names of the tools that cannot be called otherwise."""
    executions = {tool.name: tool.raw.get("execution") for tool in tools}
    return frozenset(
        name for name, one in executions.items() if isinstance(one, dict) and one.get("taskSupport") == "required"
    )


class TaskCall:
    """One tool call as a task. `send` sends a request and gives its raw result, or raises UpstreamError."""

    def __init__(self, server_id: str, send: Callable[[str, JsonObject], Awaitable[JsonObject]]) -> None:
        self._server_id, self._send = server_id, send

    async def result(self, params: JsonObject) -> JsonObject:
        """The CallToolResult. Raises UpstreamError."""
        created = (await self._send("tools/call", {**params, "task": {"ttl": KEPT_MS}})).get("task")
        task_id = created.get("taskId") if isinstance(created, dict) else None
        if not isinstance(created, dict) or not isinstance(task_id, str) or not 0 < len(task_id) <= _ID_CHARS_MAX:
            raise self._unusable("answered a call without the task that it asks for")
        if (call := OPEN_CALL.get()) is not None:
            call.task_id = task_id
        over = False
        try:
            await self._wait(task_id, created)
            result = await self._send("tasks/result", {"taskId": task_id})
            over = True
        finally:
            if not over:
                await self._cancel(task_id)
        return result

    async def _wait(self, task_id: str, task: JsonObject) -> None:
        """Until the task is over or asks something: its questions come while the result is waited for."""
        while (status := task.get("status")) not in _OVER and status != "input_required":
            if status != _UNDER_WAY:
                raise self._unusable("reports a task with an unknown status")
            await anyio.sleep(_poll_interval_s(task.get("pollInterval")))
            task = await self._send("tasks/get", {"taskId": task_id})

    async def _cancel(self, task_id: str) -> None:
        with anyio.move_on_after(_CANCEL_S, shield=True):
            try:
                await self._send("tasks/cancel", {"taskId": task_id})
            except UpstreamError:
                return  # it is over, or the server is gone

    def _unusable(self, problem: str) -> UpstreamResultError:
        return UpstreamResultError(self._server_id, problem, for_guest=problem)


def _poll_interval_s(interval_ms: JsonValue) -> float:
    if not isinstance(interval_ms, int | float) or isinstance(interval_ms, bool):
        return POLL_S_DEFAULT
    return min(max(interval_ms / 1000, POLL_S_MIN), POLL_S_MAX)
