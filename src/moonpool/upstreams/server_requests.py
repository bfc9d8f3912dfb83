"""What a server may ask back while it works: a form for a person, a model's answer, the folders it may use.

A capability is declared only if something here answers it: a handler given by the opener of the upstreams, or roots of
the configuration. Everything else is refused with "method not found" and a reason (D-030, A-050). No answer is
invented: without a handler no form is accepted (D-047).

Both ways of asking end here: a request of an older server by `dispatcher`, the `inputRequests` of a 2026-07-28 result
by `connection`.

SECURITY: a server request is hostile input. How many are open at once is bounded, forms may only hold plain fields, an
answer is checked against the form before it is sent. Handlers get the server's id: a request's content is that server's
claim.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import anyio

from moonpool.core.phrases import said
from moonpool.upstreams.forms import content_problem, form_problem, url_problem, with_defaults

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from moonpool.configuration.servers import ServerConfig
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.upstreams.open_call import CallingClient, OpenCall
    from moonpool.upstreams.root_folders import RootFolders

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL: Final = -32603
REJECTED: Final = -1
"""The spec's own example for a person who says no to a sampling request (D-039)."""
OPEN_COUNT_MAX: Final = 32
"""Server requests of one connection that wait for an answer."""
OPEN_OF_ONE_MAX: Final = 8
"""Those about one principal's calls, so that a client that does not answer blocks no other."""
ROUND_COUNT_MAX: Final = 8
ROOT_COUNT_MAX: Final = 100
ROOT_CHARS_MAX: Final = 4096
_INPUT_COUNT_MAX: Final = 16
_URLS_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequestHandlers:
    """What this host can answer for its servers. None: the capability is not declared, and refused all the same.

    A handler gets the server id and the request's params and returns the result, as JSON of the protocol. It is
    cancelled with the call that asked, and may raise `ServerRequestRefusedError`.
    """

    elicit: Callable[[str, JsonObject], Awaitable[JsonObject]] | None = None
    elicit_url: Callable[[str, JsonObject], Awaitable[JsonObject]] | None = None
    sample: Callable[[str, JsonObject], Awaitable[JsonObject]] | None = None
    roots: Callable[[str, JsonObject], Awaitable[JsonObject]] | None = None  # where the configuration names none


INPUT_KEY: ContextVar[str] = ContextVar("moonpool_input_key", default="")
"""Inside a handler: the server's own name for the request, where it has one (2026-07-28)."""
ASKED_FOR: ContextVar[tuple[OpenCall[Any], ...]] = ContextVar("moonpool_asked_for", default=())
"""Inside a handler: the calls that the request may belong to. One, unless an older server works on several."""


class ServerRequestRefusedError(Exception):
    """A server request is answered with a JSON-RPC error."""

    def __init__(self, message: str, *, code: int = REJECTED, data: JsonValue = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


_Handler: TypeAlias = "Callable[[str, JsonObject], Awaitable[JsonObject]]"
_Answer: TypeAlias = "Callable[[JsonObject], Awaitable[JsonObject]]"


class PendingServerRequests:
    """Answers one server's requests. One per connection."""

    def __init__(self, config: ServerConfig, handlers: ServerRequestHandlers, folders: RootFolders) -> None:
        self._config = config
        self._folders = folders
        self._handlers = handlers
        self._open: Counter[str] = Counter()  # by principal
        self._calls: list[OpenCall[Any]] = []  # under way
        self._answers: dict[str, _Answer] = {}
        if handlers.elicit is not None:
            self._answers["elicitation/create"] = self._elicit
        if handlers.sample is not None:
            self._answers["sampling/createMessage"] = self._sample
        if handlers.roots is not None:
            self._answers["roots/list"] = self._client_roots

    @property
    def capabilities(self) -> JsonObject:
        """What is declared to the server: exactly what is answered."""
        names = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
        declared: JsonObject = {names[method]: {} for method in names if self._answer_to(method) is not None}
        if self._handlers.elicit_url is not None:
            declared["elicitation"] = {"form": {}, "url": {}}
        return declared

    @property
    def handshake_capabilities(self) -> JsonObject:
        """The same for protocol versions with notifications about changed roots."""
        declared = self.capabilities
        return declared if "roots" not in declared else {**declared, "roots": {"listChanged": True}}

    def capabilities_for(self, call: OpenCall[Any] | None) -> JsonObject:
        """What is declared with one request: of a client that calls without code, only what it can be asked."""
        declared, client = self.capabilities, None if call is None else call.context.client
        if client is None:
            return declared
        if "elicitation" in declared:
            modes: JsonObject = {mode: {} for mode in ("form", "url") if mode in client.abilities}
            declared["elicitation"] = modes or None
        can = {
            "sampling": "sampling" in client.abilities,
            "roots": self._folders.folders or "roots" in client.abilities,
        }
        return {name: value for name, value in declared.items() if value is not None and can.get(name, True)}

    @property
    def client(self) -> CallingClient | None:
        """The client whose calls are under way, if they are all of one and made without code.

        SECURITY: what a server says unasked names no call, so only then is it known whom it is about.
        """
        sessions = {call.context.identity.session_id for call in self._calls}
        clients = [call.context.client for call in self._calls]
        return clients[0] if len(sessions) == 1 and "" not in sessions and None not in clients else None

    @contextmanager
    def on_behalf_of(self, call: OpenCall[Any] | None) -> Generator[None]:
        """`call` is under way for the length of a `with` block."""
        if call is None:
            yield
            return
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)

    async def answer(
        self, method: str, params: Mapping[str, Any] | None, call: OpenCall[Any] | None = None
    ) -> JsonObject:
        """The result for one request, about `call` or any that is under way. Raises ServerRequestRefusedError."""
        if method == "ping":
            return {}
        handler = self._answer_to(method)
        if handler is None:
            reason = f"this client does not answer {said(method, 80)}"
            raise ServerRequestRefusedError("Method not found", code=METHOD_NOT_FOUND, data={"reason": reason})
        calls = tuple(self._calls) if call is None else (call,)
        whose = {one.context.identity.principal for one in calls}
        principal = whose.pop() if len(whose) == 1 else ""
        if self._open[principal] >= OPEN_OF_ONE_MAX or self._open.total() >= OPEN_COUNT_MAX:
            raise ServerRequestRefusedError(f"{OPEN_OF_ONE_MAX} server requests are open already", code=INTERNAL)
        self._open[principal] += 1
        token = ASKED_FOR.set(calls)
        try:
            return await handler(dict(params or {}))
        except ServerRequestRefusedError:
            raise
        except Exception as exc:
            raise ServerRequestRefusedError("the client failed to answer", code=INTERNAL) from exc
        finally:
            ASKED_FOR.reset(token)
            self._open[principal] -= 1
            self._open += Counter()  # drop principals without any

    def _answer_to(self, method: str) -> _Answer | None:
        if method == "roots/list" and self._folders.folders:  # there may be some at one time and none at another
            return self._roots
        return self._answers.get(method)

    async def input_responses(self, result: JsonObject, call: OpenCall[Any] | None = None) -> JsonObject | None:
        """The members to repeat `call` with, whose result was `input_required`; None when it cannot be answered."""
        requests, state = result.get("inputRequests"), result.get("requestState")
        if not isinstance(requests, dict | None) or not isinstance(state, str | None):
            return None
        if len(requests or {}) > _INPUT_COUNT_MAX or (not requests and state is None):
            return None
        again: JsonObject = {} if state is None else {"requestState": state}
        if requests:
            answered = await self._all_answers(requests, call)
            if answered is None:
                return None
            again["inputResponses"] = answered
        return again

    async def show_addresses(self, data: JsonValue, call: OpenCall[Any] | None) -> bool:
        """Show a person, whole, the addresses without which a server refuses a call; whether all were accepted.

        A client that calls without code gets the error itself, which tells it the same.
        """
        wanted = data.get("elicitations") if isinstance(data, dict) else None
        if not isinstance(wanted, list) or not 0 < len(wanted) <= _URLS_MAX:
            return False
        if call is not None and call.context.client is not None:
            return False
        for one in wanted:
            if not isinstance(one, dict) or one.get("mode") != "url":
                return False
            try:
                if (await self.answer("elicitation/create", one, call)).get("action") != "accept":
                    return False
            except ServerRequestRefusedError:
                return False
        return True

    async def _all_answers(self, requests: Mapping[str, JsonValue], call: OpenCall[Any] | None) -> JsonObject | None:
        """The answers to requests that a server makes together, asked together; None when one is refused."""
        answered: JsonObject = {}
        refused = False

        async def ask(key: str, request: JsonValue) -> None:
            nonlocal refused
            INPUT_KEY.set(key)
            method, params = _parts(request)
            try:
                answered[key] = await self.answer(method, params, call)
            except ServerRequestRefusedError:
                refused = True
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for key, request in requests.items():
                tasks.start_soon(ask, key, request)
        return None if refused else {key: answered[key] for key in requests}

    async def _elicit(self, params: JsonObject) -> JsonObject:
        if params.get("mode") == "url" and self._handlers.elicit_url is not None:
            return await self._open_url(self._handlers.elicit_url, params)
        if params.get("mode", "form") != "form":
            raise ServerRequestRefusedError("this client fills in forms only", code=INVALID_PARAMS)
        form = params.get("requestedSchema")
        if not isinstance(form, dict):
            raise ServerRequestRefusedError("requestedSchema is no object", code=INVALID_PARAMS)
        if problem := form_problem(form):
            raise ServerRequestRefusedError(
                f"requestedSchema cannot be shown as a form: {problem}", code=INVALID_PARAMS
            )
        assert self._handlers.elicit is not None
        given = await self._handlers.elicit(self._config.server_id, params)
        action = given.get("action")
        if action not in {"accept", "decline", "cancel"}:
            raise ServerRequestRefusedError("the client failed to answer", code=INTERNAL)
        if action != "accept":
            return {"action": action}
        written = given.get("content") or {}
        content = with_defaults(form, written if isinstance(written, dict) else {})
        if problem := content_problem(form, content):
            raise ServerRequestRefusedError(f"the answer does not fit requestedSchema: {problem}", code=INTERNAL)
        return {"action": "accept", "content": content}

    async def _open_url(self, handler: _Handler, params: JsonObject) -> JsonObject:
        if problem := url_problem(params.get("url")):
            raise ServerRequestRefusedError(f"url {problem}", code=INVALID_PARAMS)
        action = (await handler(self._config.server_id, params)).get("action")
        if action not in {"accept", "decline", "cancel"}:
            raise ServerRequestRefusedError("the client failed to answer", code=INTERNAL)
        return {"action": action}

    async def _sample(self, params: JsonObject) -> JsonObject:
        limit = params.get("maxTokens")
        if not isinstance(params.get("messages"), list) or not isinstance(limit, int) or isinstance(limit, bool):
            raise ServerRequestRefusedError('sampling needs "messages" and "maxTokens"', code=INVALID_PARAMS)
        assert self._handlers.sample is not None
        asked = {key: value for key, value in params.items() if key != "includeContext"}  # D-037: never other servers'
        return await self._handlers.sample(self._config.server_id, asked)

    async def _client_roots(self, params: JsonObject) -> JsonObject:
        assert self._handlers.roots is not None
        listed = (await self._handlers.roots(self._config.server_id, params)).get("roots")
        if not isinstance(listed, list) or len(listed) > ROOT_COUNT_MAX or not all(map(_is_root, listed)):
            raise ServerRequestRefusedError("the client failed to answer", code=INTERNAL)
        return {"roots": [cast("JsonValue", {key: one[key] for key in ("uri", "name") if key in one})
                          for one in cast("list[JsonObject]", listed)]}  # fmt: skip

    async def _roots(self, params: JsonObject) -> JsonObject:
        del params
        return {"roots": await self._folders.present()}


def _is_root(given: JsonValue) -> bool:
    """SPEC: a root is a `file://` address, perhaps with a name."""
    if not isinstance(given, dict) or not isinstance(uri := given.get("uri"), str):
        return False
    named = given.get("name")
    return uri.startswith("file://") and len(uri) <= ROOT_CHARS_MAX and isinstance(named, str | None)


def _parts(request: JsonValue) -> tuple[str, JsonObject]:
    if not isinstance(request, dict):
        return "", {}
    params = request.get("params")
    return str(request.get("method")), cast("JsonObject", params) if isinstance(params, dict) else {}
