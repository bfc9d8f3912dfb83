"""Answers server requests during a call: elicitation, sampling.

`server_requests` checks, shows and records such a request; an implementation of `RequestResponder` asks a person or a
model. An execution has at most one responder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject


class AnswererGoneError(Exception):
    """Nobody can answer: the client is gone, or too many requests wait for it already."""


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
