"""Passing on what servers ask: forms and addresses to the person, sampling to the model, at the client of the call.

A server request goes to the one client whose execution is calling the server, if the configuration of that server says
`server_requests`, policy does not deny it (`elicitation/create` and `sampling/createMessage` count as tools of the
server), and the client has declared it. In every other case it is declined; no answer is invented (D-047). Its shape,
and that an answer fits, is checked by `upstreams.server_requests`.

SECURITY: a server request is untrusted. It is bounded, redacted, limited in number, and shown with the name of the
server. An answer is bounded too, and stays here when a secret is in it; nothing else of the client, of other servers or
of other calls goes back. Code in the sandbox neither sees nor answers it. When calls of several executions are at one
server, a request that does not name its call is declined.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

from moonpool.configuration.server_config import ServerOptions
from moonpool.core.calls import ApprovalState
from moonpool.core.json import digest_json
from moonpool.core.lookalikes import shown_name
from moonpool.core.manifest import ToolDefinition
from moonpool.core.phrases import clip, on_one_line, printable, storable
from moonpool.features.approvals.model import ApprovalRequest
from moonpool.pipeline.execution_grant import UNKNOWN_SERVER
from moonpool.pipeline.request_responder import AnswererGoneError
from moonpool.pipeline.sampling import SAMPLE, asked_of, sampled
from moonpool.pipeline.server_request_records import REFUSED, ServerRequestRecorder
from moonpool.pipeline.shown_arguments import view_of
from moonpool.policy import DEFAULT_LAYER, CallFacts, Verdict, decide
from moonpool.redaction.redactor import Tally
from moonpool.upstreams.forms import shown_form
from moonpool.upstreams.open_call import all_paused
from moonpool.upstreams.server_requests import (
    ASKED_FOR,
    INTERNAL,
    ServerRequestHandlers,
    ServerRequestRefusedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.configuration.servers import ServerConfig
    from moonpool.core.audit import Journal
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.pipeline.call_state import CallContext
    from moonpool.pipeline.request_responder import RequestResponder
    from moonpool.pipeline.server_request_records import ServerRequestNote
    from moonpool.policy import Decision
    from moonpool.redaction.redactor import Redactor
    from moonpool.upstreams.open_call import OpenCall

_log = logging.getLogger(__name__)

ELICIT: Final = "elicitation/create"
ROOTS: Final = "roots/list"
PER_MINUTE_MAX: Final = ServerOptions().requests_per_minute
"""Server requests of one server to one principal, where its configuration says nothing else."""
OF_ALL_PER_MINUTE_MAX: Final = 6 * PER_MINUTE_MAX
"""Server requests of one server to all principals."""
MESSAGE_CHARS_MAX: Final = 2_000
_NO: Final[JsonObject] = {"action": "decline"}


class ServerRequests:
    """Answers for the servers of one broker."""

    def __init__(
        self,
        redactor: Redactor,
        journal: Journal,
        *,
        expiry_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A request that is not answered within `expiry_s` is cancelled."""
        self._redactor, self._expiry_s, self._clock = redactor, expiry_s, clock
        self._records = ServerRequestRecorder(journal, clock=clock)
        self._per_minute: dict[str, int] = {}
        self._asked: dict[str, deque[tuple[float, str]]] = defaultdict(deque)  # when, and of whose call

    def handlers_for(self, server: ServerConfig) -> ServerRequestHandlers:
        """What is answered for `server`, and so declared to it, as its configuration says."""
        self._per_minute[server.server_id] = server.requests_per_minute
        relays = server.elicitation == "relay"
        asks = server.sampling == "ask"

        async def sample(server_id: str, params: JsonObject) -> JsonObject:
            return await self._sample(server_id, params, reviewed=asks)

        return ServerRequestHandlers(
            elicit=self._elicit if relays else None,
            elicit_url=self._elicit if relays else None,
            sample=sample if server.sampling != "deny" else None,
            roots=self._roots if server.client_roots else None,
        )

    async def _elicit(self, server_id: str, params: JsonObject) -> JsonObject:
        async with self._records.recorded(server_id, ELICIT, params) as note:
            answer = await self._elicited(server_id, params, note)
            note.answer = _kind(answer.get("action"))
        return answer

    async def _elicited(self, server_id: str, params: JsonObject, note: ServerRequestNote) -> JsonObject:
        found = self._responder(server_id, ELICIT, note, str(params.get("mode", "form")))
        if found is None:
            return _NO
        calls, responder = found
        note.decision = decision_about(calls[0].context, server_id, ELICIT)
        if note.decision.verdict is Verdict.DENY:
            note.why = "policy"
            return _NO
        self._count(server_id, calls[0], note)
        asked = self._form(server_id, calls[0], params)
        if asked is None:
            note.why = "it holds a secret"
            _log.warning("a form of server %r holds a secret and was declined", server_id)
            return _NO
        try:
            answer = await self._ask(calls, responder, ELICIT, asked, note)
        except TimeoutError:
            return {"action": "cancel"}
        except AnswererGoneError:
            return _NO
        if self._redactor.json(answer.get("content"), Tally()) != answer.get("content"):
            note.why = "the answer holds a secret"
            _log.warning("an answer to server %r holds a secret and was not sent", server_id)
            return _NO
        return answer

    async def _sample(self, server_id: str, params: JsonObject, *, reviewed: bool) -> JsonObject:
        async with self._records.recorded(server_id, SAMPLE, params) as note:
            answer = await self._sampled(server_id, params, note, reviewed=reviewed)
            note.answer = "answered"
        return answer

    async def _sampled(
        self, server_id: str, params: JsonObject, note: ServerRequestNote, *, reviewed: bool
    ) -> JsonObject:
        found = self._responder(server_id, SAMPLE, note)
        if found is None:
            raise ServerRequestRefusedError("no client that can sample is attached")
        calls, responder = found
        note.decision = decision = decision_about(calls[0].context, server_id, SAMPLE)
        if decision.verdict is Verdict.DENY:
            note.why = "policy"
            raise ServerRequestRefusedError("policy does not allow sampling")
        asked = asked_of(self._redactor.json_object(params, Tally()))
        self._count(server_id, calls[0], note)
        by_policy = decision.verdict in {Verdict.ASK, Verdict.HUMAN_ONLY} and decision.layer != DEFAULT_LAYER
        reviewed = reviewed or by_policy
        if reviewed:
            await self._review(calls, server_id, "what it wants a model to be asked", asked, note)
        try:
            given = await self._ask(calls, responder, SAMPLE, asked, note)
        except (TimeoutError, AnswererGoneError):
            raise ServerRequestRefusedError("nobody answered the sampling request") from None
        answer = sampled(self._redactor.json_object(given, Tally()))
        if reviewed:
            await self._review(calls, server_id, "what the model answered", answer, note)
        return answer

    async def _roots(self, server_id: str, params: JsonObject) -> JsonObject:
        async with self._records.recorded(server_id, ROOTS, params) as note:
            found = self._responder(server_id, ROOTS, note)
            if found is None:
                raise ServerRequestRefusedError("no client that has roots is attached")
            calls, responder = found
            note.decision = decision_about(calls[0].context, server_id, ROOTS)
            if note.decision.verdict is Verdict.DENY:
                note.why = "policy"
                raise ServerRequestRefusedError("policy does not allow roots")
            self._count(server_id, calls[0], note)
            try:
                answer = await self._ask(calls, responder, ROOTS, {}, note)
            except (TimeoutError, AnswererGoneError):
                raise ServerRequestRefusedError("nobody answered") from None
            note.answer = "answered"
        return self._redactor.json_object(answer, Tally())

    async def _ask(
        self,
        calls: list[OpenCall[CallContext]],
        responder: RequestResponder,
        method: str,
        params: JsonObject,
        note: ServerRequestNote,
    ) -> JsonObject:
        note.shown, note.why = True, "nobody answered"
        try:
            with all_paused(calls):
                async with asyncio.timeout(self._expiry_s):
                    given = await responder.ask(method, params)
        except ServerRequestRefusedError:  # that is an answer, too
            note.answerer, note.why = responder.name, ""
            raise
        note.answerer, note.why = responder.name, ""
        return given

    async def _review(
        self, calls: list[OpenCall[CallContext]], server_id: str, what: str, shown: JsonObject, note: ServerRequestNote
    ) -> None:
        """Have a person look at it (D-034). Raises ServerRequestRefusedError."""
        context, decision = calls[0].context, note.decision
        assert decision is not None
        note.shown = True
        view, trust = view_of(shown, self._redactor), context.grant.trust.get(server_id, UNKNOWN_SERVER)
        request = ApprovalRequest(
            request_id="",  # the approval service gives it
            run_id=context.identity.run_id,
            principal=context.identity.principal,
            server_id=server_id,
            tool_name=SAMPLE,
            arguments=view.text,
            arguments_digest=digest_json(shown),
            reason=f"server {printable(server_id)!r} asks for sampling; this is {what}",
            remedy='write "sampling": "relay" or "deny" into the "moonpool" block of this server',
            human_only=decision.verdict is Verdict.HUMAN_ONLY,
            session_id=context.identity.session_id,
            rule_id=printable(decision.rule_id),
            of_the_moment=True,
            cut=view.cut,
            whole=view.whole,
            server_digest=trust.digest,
            server_address=printable(trust.address),
            config_file=printable(trust.config_file),
        )
        context.counters.pending += 1
        try:
            with all_paused(calls):
                answer = await context.grant.approvals.settle(request)
        finally:
            context.counters.pending -= 1
        context.counters.settle(answer.state)
        note.approver = answer.approver
        if answer.state is not ApprovalState.APPROVED:
            note.why = "review"
            raise ServerRequestRefusedError("User rejected sampling request")

    def _responder(
        self, server_id: str, method: str, note: ServerRequestNote, mode: str = ""
    ) -> tuple[list[OpenCall[CallContext]], RequestResponder] | None:
        calls = [*ASKED_FOR.get()]
        runs = {call.context.identity.run_id for call in calls}
        responder = calls[0].context.grant.responder if len(runs) == 1 else None
        if responder is not None and responder.can(method, mode):
            return calls, responder
        if len(runs) > 1:
            why = "calls of several executions are under way, so it is unknown which of them the request belongs to"
        else:
            why = "no client that can answer it is attached" if runs else "no call is under way"
        note.why = why
        _log.warning("%s of server %r was declined: %s", method, server_id, why)
        return None

    def _count(self, server_id: str, call: OpenCall[CallContext], note: ServerRequestNote) -> None:
        """Raises ServerRequestRefusedError when this server asks too often (D-040, D-046).

        One principal's calls cannot use up the requests of another's.
        """
        now, asked, principal = self._clock(), self._asked[server_id], call.context.identity.principal
        while asked and now - asked[0][0] >= 60:
            asked.popleft()
        most = self._per_minute.get(server_id, PER_MINUTE_MAX)
        of_all = most * OF_ALL_PER_MINUTE_MAX // PER_MINUTE_MAX
        if sum(whose == principal for _, whose in asked) >= most or len(asked) >= of_all:
            note.why = "too many"
            raise ServerRequestRefusedError(f"more than {most} server requests in a minute", code=INTERNAL)
        asked.append((now, principal))

    def _form(self, server_id: str, call: OpenCall[CallContext], params: JsonObject) -> JsonObject | None:
        """The form as it is shown, with the server's name; None when a known secret stands in its fields."""
        said = self._redactor.text(storable(clip(str(params.get("message", "")), MESSAGE_CHARS_MAX)), Tally())
        # SECURITY: a mark at the start of each line shows that the words are the server's.
        quoted = "\n".join(f"> {line}" for line in printable(said).split("\n"))
        tool = on_one_line(shown_name(call.tool))
        by = "by code" if call.context.client is None else "by this client"
        message = f"Server {on_one_line(server_id)!r}, called {by} as {tool}, asks:\n{quoted}"
        asked: JsonObject = {"mode": params.get("mode", "form"), "message": message}
        if asked["mode"] == "url":
            asked["url"], tally = params["url"], Tally()
            given = params.get("elicitationId")
            asked["elicitationId"] = given if isinstance(given, str) and 0 < len(given) <= 200 else uuid.uuid4().hex
            self._redactor.text(str(params["url"]), tally)
            return None if tally.total() else asked
        form = params["requestedSchema"]
        if self._redactor.json(form, Tally()) != form:
            return None
        asked["requestedSchema"] = shown_form(form)
        return asked


def decision_about(context: CallContext, server_id: str, method: str) -> Decision:
    """What policy says of a server's request, which counts as a tool of the server."""
    facts = CallFacts(
        tool=ToolDefinition(server_id=server_id, name=method, raw={"name": method}),
        arguments={},
        trusted=False,
        principal=context.identity.principal,
        language=context.identity.language,
        taken_in=context.memory.taken_in,
        usage={},
        argument_bytes=0,
    )
    return decide(context.grant.policy.without_budgets, facts)


def may_name_addresses(context: CallContext, server_id: str) -> bool:
    """Whether the client of a call can be asked to open addresses of this server, and policy does not deny that."""
    able = context.client is not None and "url" in context.client.abilities
    return able and decision_about(context, server_id, ELICIT).verdict is not Verdict.DENY


def _kind(action: JsonValue) -> str:
    """SECURITY: what a client answers gets into the journal as one of three words."""
    return action if isinstance(action, str) and action in {"accept", "decline", "cancel"} else REFUSED
