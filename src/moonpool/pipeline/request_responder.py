"""Who answers what servers ask while they carry out a call: elicitation, sampling.

The relay (`server_requests`) checks, shows and records such a request; whoever implements `RequestResponder` puts it to
a person or a model. An execution has at most one responder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject


class AnswererGoneError(Exception):
    """Nobody can answer: the client has left, or as much waits for it already as may."""


class RequestResponder(Protocol):
    """The person and the model at the client that an execution belongs to."""

    @property
    def name(self) -> str:
        """Who answers, for the audit journal: `mcp:client`, `terminal:alice`."""
        ...

    def can(self, method: str, mode: str = "") -> bool:
        """Whether the client has declared it; `mode` of an elicitation is `form` or `url`."""
        ...

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """The client's result, unchecked. Raises AnswererGoneError, ServerRequestRefusedError."""
        ...
