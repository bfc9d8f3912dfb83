"""Requests of the 2026-07-28 era over the raw client: everything a call needs stands in its `_meta`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server.raw_client import RawClient

FORMS = {"elicitation": {"form": {}}}
YES = {"action": "accept", "content": {"allow": True}}


class ModernClient:
    """Calls `execute_code` and answers what it is asked, one round at a time."""

    def __init__(self, wire: RawClient, capabilities: dict[str, Any] | None = None) -> None:
        self.wire = wire
        self.capabilities = FORMS if capabilities is None else capabilities

    def start(self, code: str, *, state: Any = None, answers: Any = None, token: Any = None, **arguments: Any) -> Any:
        """Send the call; return the request's id."""
        return self._send("execute_code", {"code": code, **arguments}, state, answers, token)

    def wait(self, execution: str, *, state: Any = None, answers: Any = None, **arguments: Any) -> Any:
        """What `wait` answers: its result, or the error."""
        answer = self.wire.answer(self._send("wait", {"id": execution, **arguments}, state, answers))
        return answer.get("result") or answer["error"]

    def _send(self, tool: str, arguments: dict[str, Any], state: Any, answers: Any, token: Any = None) -> Any:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1.0"},
        }
        if token is not None:
            meta["progressToken"] = token
        params: dict[str, Any] = {"name": tool, "arguments": arguments, "_meta": meta}
        if state is not None:
            params["requestState"] = state
        if answers is not None:
            params["inputResponses"] = answers
        return self.wire.request("tools/call", params)

    def call(self, code: str, **more: Any) -> Any:
        """The whole answer, result or error."""
        return self.wire.answer(self.start(code, **more))

    def ask(self, code: str, **more: Any) -> Any:
        """A call that must be answered by questions."""
        result = self.call(code, **more)["result"]
        assert result["resultType"] == "input_required", result
        return result

    def finish(self, code: str, **more: Any) -> Any:
        """A call that must be answered by its outcome."""
        result = self.call(code, **more)["result"]
        assert result["resultType"] == "complete", result
        return result["structuredContent"]


def answers_to(asked: Any, answer: Any = YES) -> dict[str, Any]:
    return dict.fromkeys(asked["inputRequests"], answer)
