"""Requests to a client: which execution may ask which client, and what that client supports.

An asker (a `RequestResponder`) sends one protocol request to the client of one call and returns its result as JSON.
There are two kinds: one sends the request, one keeps it for the answer `input_required` (`engine.pending_calls`).
`Bindings` knows the asker of each execution. The task that starts an execution binds it, so code cannot choose whom it
asks.

Neighbours: `approver` asks about tool calls, `pipeline.server_requests` forwards requests of upstreams.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from moonpool.pipeline.request_responder import AnswererGoneError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Generator

    from moonpool.core.json import JsonObject
    from moonpool.engine.pending_calls import Parked
    from moonpool.pipeline.call_state import CallContext
    from moonpool.pipeline.caller_grant import CallerGrant, RunFacts
    from moonpool.pipeline.request_responder import RequestResponder

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"
CLIENT: Final = "mcp:client"


@dataclass(frozen=True, slots=True)
class Abilities:
    """The capabilities that a client declared, as far as its revision has them."""

    form: bool = False
    url: bool = False
    sample: bool = False
    roots: bool = False

    def can(self, method: str, mode: str = "") -> bool:
        if method == SAMPLE:
            return self.sample
        if method == ROOTS:
            return self.roots
        return method == ELICIT and (self.url if mode == "url" else self.form)


@dataclass(frozen=True, slots=True)
class SendingAsker:
    """Sends one request at a time: a person reads one form after the other."""

    abilities: Abilities
    send: Callable[[str, JsonObject], Awaitable[JsonObject]]
    turn: asyncio.Lock
    name: str = CLIENT

    def can(self, method: str, mode: str = "") -> bool:
        return self.abilities.can(method, mode)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        async with self.turn:
            return await self.send(method, params)


@dataclass(frozen=True, slots=True)
class LeavingAsker:
    """Keeps the question with the call until its client asks for it."""

    abilities: Abilities
    call: Parked[Any]
    name: str = CLIENT

    def can(self, method: str, mode: str = "") -> bool:
        return self.abilities.can(method, mode)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        return await self.call.ask(method, params)


@dataclass(frozen=True, slots=True)
class WaitingClient:
    """The client of the request that waits for the call now, which need not be the one that began it."""

    call: Parked[Any]
    name: str = CLIENT

    def can(self, method: str, mode: str = "") -> bool:
        return self.call.asker is not None and self.call.asker.can(method, mode)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        if self.call.asker is None:
            raise AnswererGoneError("no request of the client waits for this execution")
        return await self.call.asker.ask(method, params)


@dataclass(frozen=True, slots=True)
class _Binding:
    of: Bindings
    call: Parked[Any]
    asker: RequestResponder | None


_binding: ContextVar[_Binding | None] = ContextVar("moonpool_binding", default=None)


class Bindings:
    """Which client each execution belongs to."""

    def __init__(self) -> None:
        self._askers: dict[str, RequestResponder] = {}
        self.at_client = set[str]()  # ids of the approvals that clients are asked for now

    def asker_of(self, run_id: str) -> RequestResponder | None:
        return self._askers.get(run_id)

    def asker_of_this_task(self) -> RequestResponder | None:
        """The asker for questions before the execution begins, if it was bound here."""
        binding = _binding.get()
        return binding.asker if binding is not None and binding.of is self else None

    @contextmanager
    def asking(self, run_id: str, asker: RequestResponder | None) -> Generator[None]:
        """Questions about `run_id`, which is no execution, go to `asker` inside the block."""
        if asker is not None:
            self._askers[run_id] = asker
        try:
            yield
        finally:
            self._askers.pop(run_id, None)

    @contextmanager
    def binding(self, call: Parked[Any], asker: RequestResponder | None) -> Generator[None]:
        """Executions that start inside the block, with a grant from `caller_grant`, belong to `call`
        and ask `asker`.
        """
        token = _binding.set(_Binding(self, call, asker))
        try:
            yield
        finally:
            _binding.reset(token)
            for context in call.contexts:
                self._askers.pop(context.identity.run_id, None)

    def caller_grant(self, caller_grant: CallerGrant) -> CallerGrant:
        """`caller_grant`, with its executions bound to the call that started them."""

        def make_context(facts: RunFacts) -> CallContext:
            binding = _binding.get()  # the execution's task was made by the call's, so it inherits its context
            if binding is None:
                return caller_grant.make_context(facts)
            if binding.asker is not None:
                self._askers[facts.identity.run_id] = binding.asker
                facts = replace(facts, responder=facts.responder or binding.asker)
            made = caller_grant.make_context(facts)
            binding.call.contexts.append(made)
            return made

        return replace(caller_grant, make_context=make_context)
