"""Executions by one call over HTTP: each decodes, makes one call and encodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from moonpool.core.errors import InputError
from moonpool.engine.sandbox_runs.base import RunQuery, SandboxOrder
from moonpool.engine.sandbox_runs.errors import ExecutionOffError
from moonpool.engine.sandbox_runs.orders import METADATA_KEYS_MAX
from moonpool.engine.sandbox_runs.results import result_body
from moonpool.features.execution_records.model import status_body
from moonpool.server.http.baponi_errors import BAPONI_FORM
from moonpool.server.http.sandbox import messages
from moonpool.server.http.sessions.bodies import (
    body_of,
    converted,
    json_answer,
    json_line,
    query_of,
    while_client_waits,
)
from moonpool.server.http.sessions.errors import TooManySessionsError
from moonpool.server.http.sessions.lines import NDJSON
from moonpool.server.http.sessions.operations import SANDBOX_PROFILES, Operation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from moonpool.engine.sandbox_runs.base import RunResult, SandboxRun
    from moonpool.features.caller_limits.service import CallerLimiter
    from moonpool.features.execution_records.model import DeliveryMode
    from moonpool.features.tool_switches.model import ToolSwitches
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.lapsed_callers import Owner
    from moonpool.server.http.sandbox.tenants import SandboxTenants, WebhookKeys

READERS_MAX: Final = 16
"""That read the lines of one execution at the same time."""
TRACE_HEADER: Final = "x-trace-id"
EXECUTE: Final = "sandbox_execute"
"""The tool whose switch holds here, too."""
_METADATA: Final = "metadata."
_operation: Final = partial(Operation, profiles=SANDBOX_PROFILES, form=BAPONI_FORM)
_STREAM_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}


class SandboxRoutes:
    """The endpoints."""

    def __init__(
        self, tenants: SandboxTenants, limiter: CallerLimiter | None, webhooks: WebhookKeys, switches: ToolSwitches
    ) -> None:
        self._tenants, self._limiter, self._webhooks, self._switches = tenants, limiter, webhooks, switches
        self._readers: Counter[str] = Counter()  # by trace id
        self._reading: dict[asyncio.Task[object], Owner] = {}  # tasks that send lines
        self._lapsed: set[asyncio.Task[object]] = set()  # of these

    @property
    def owners(self) -> set[Owner]:
        """Who reads lines; see `moonpool.server.http.lapsed_callers.OpenWork`."""
        return set(self._reading.values())

    def end_owner(self, organisation: str, principal: str) -> None:
        """End the streams of this principal, whose credential counts no more. An administrator reads others' lines."""
        for task, owner in self._reading.items():
            if owner == (organisation, principal) and task not in self._lapsed:
                self._lapsed.add(task)
                task.cancel()

    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        one = "/executions/{trace_id}"
        return (
            _operation(
                method="POST", path="/sandbox/execute", name="execute", endpoint=self.execute,
                summary="Run code in a sandbox of its own; `Accept: application/x-ndjson` streams, "
                "`Prefer: respond-async` answers at once",
                body=messages.ExecuteRequest, answer=messages.ExecuteResult, line=messages.ExecutionLine,
                accepted=messages.Accepted,
            ),
            _operation(
                method="GET", path="/executions", name="listExecutions", endpoint=self.list,
                summary="Your executions of the last week, without their output; an administrator sees all",
                query=messages.ListQuery, answer=messages.ExecutionList,
            ),
            _operation(
                method="GET", path=one, name="getExecution", endpoint=self.get,
                summary="One execution, running or over", answer=messages.ExecutionStatus,
            ),
            _operation(
                method="GET", path=f"{one}/output", name="followExecution", endpoint=self.output,
                summary="The lines of an execution behind `after_seq`, to its result",
                query=messages.OutputQuery, answer="lines", line=messages.ExecutionLine,
            ),
            _operation(
                method="POST", path=f"{one}/cancel", name="cancelExecution", endpoint=self.cancel,
                summary="End an execution that runs", answer=messages.Accepted,
            ),
            _operation(
                method="GET", path="/webhooks/secret", name="getWebhookSecret", endpoint=self.secret, scope="admin",
                summary="What signs the webhooks of your organisation", answer=messages.WebhookSecret,
            ),
            _operation(
                method="POST", path="/webhooks/secret", name="renewWebhookSecret", endpoint=self.renew, scope="admin",
                summary="Replace it; the old one signs nothing more", answer=messages.WebhookSecret,
            ),
        )  # fmt: skip

    # --- running

    async def execute(self, request: Request, caller: HttpCaller) -> Response:
        mode = _delivery_mode(request)
        asked = await body_of(request, messages.ExecuteRequest, bytes_max=messages.BODY_BYTES_MAX)
        if EXECUTE in await self._switches.disabled_tools(caller.organisation):
            raise ExecutionOffError
        ended = None if self._limiter is None else await self._limiter.begin(caller)
        try:
            runs, owner = await self._tenants.of(caller)
            run = await while_client_waits(request, runs.begin(owner, _order(asked, mode)))
        except BaseException:
            if ended is not None:
                ended()
            raise
        if ended is not None:
            run.when_over(ended)
        headers = {TRACE_HEADER: run.trace_id}
        if mode == "webhook":
            accepted = messages.Accepted(trace_id=run.trace_id, status="running")
            return json_answer(accepted, 202, {**headers, "preference-applied": "respond-async"})
        if mode == "streaming":
            return self._stream(caller, run, 0, headers)
        return json_answer(result_body(await _result(request, run)), headers=headers)

    async def output(self, request: Request, caller: HttpCaller) -> Response:
        query = query_of(request, messages.OutputQuery)
        runs, owner = await self._tenants.of(caller)
        run = await runs.follow(owner, request.path_params["trace_id"])
        if self._readers[run.trace_id] >= READERS_MAX:
            raise TooManySessionsError(f"{READERS_MAX} clients read the lines of this execution already; end one")
        return self._stream(caller, run, query.after_seq, {TRACE_HEADER: run.trace_id})

    def _stream(self, caller: HttpCaller, run: SandboxRun, after_seq: int, headers: dict[str, str]) -> Response:
        lines = self._lines((caller.organisation, caller.principal), run, after_seq)
        return StreamingResponse(lines, media_type=NDJSON, headers={**_STREAM_HEADERS, **headers})

    async def _lines(self, owner: Owner, run: SandboxRun, after_seq: int) -> AsyncIterator[bytes]:
        task = asyncio.current_task()
        assert task is not None
        self._readers[run.trace_id] += 1
        self._reading[task] = owner
        try:
            async for event in run.events(after_seq):
                yield json_line(event.body)
        except asyncio.CancelledError:
            if task in self._lapsed and not task.uncancel():
                return
            raise
        finally:
            del self._reading[task]
            self._lapsed.discard(task)
            self._readers[run.trace_id] -= 1
            if not self._readers[run.trace_id]:
                del self._readers[run.trace_id]

    async def cancel(self, request: Request, caller: HttpCaller) -> Response:
        runs, owner = await self._tenants.of(caller)
        trace_id = request.path_params["trace_id"]
        await runs.cancel(owner, trace_id)
        return json_answer(messages.Accepted(trace_id=trace_id, status="cancelling"))

    # --- records

    async def list(self, request: Request, caller: HttpCaller) -> Response:
        query = _list_query(request)
        runs, owner = await self._tenants.of(caller)
        page = await runs.list(owner, query)
        found = [status_body(one, with_output=False) for one in page.records]
        return json_answer({"executions": found, "next_cursor": page.next_cursor})

    async def get(self, request: Request, caller: HttpCaller) -> Response:
        runs, owner = await self._tenants.of(caller)
        return json_answer(status_body(await runs.find(owner, request.path_params["trace_id"])))

    # --- webhooks

    async def secret(self, request: Request, caller: HttpCaller) -> Response:
        del request
        return json_answer(messages.WebhookSecret(secret=await self._webhooks.secret(caller.organisation)))

    async def renew(self, request: Request, caller: HttpCaller) -> Response:
        del request
        return json_answer(messages.WebhookSecret(secret=await self._webhooks.renew(caller.organisation)))


async def _result(request: Request, run: SandboxRun) -> RunResult:
    """Nobody else can have the result of an inline execution, so it ends with its request."""
    try:
        return await while_client_waits(request, run.result())
    except ClientDisconnect:
        run.cancel()
        raise


def _delivery_mode(request: Request) -> DeliveryMode:
    preferences = [word.strip().lower() for line in request.headers.getlist("prefer") for word in line.split(",")]
    if "respond-async" in preferences:
        return "webhook"
    accepted = (word.partition(";")[0].strip().lower() for word in request.headers.get("accept", "").split(","))
    return "streaming" if NDJSON in accepted else "inline"


def _order(asked: messages.ExecuteRequest, mode: DeliveryMode) -> SandboxOrder:
    return SandboxOrder(
        code=asked.code,
        language=asked.language,
        timeout_s=asked.timeout,
        thread_id=asked.thread_id,
        metadata=asked.metadata or {},
        variables=asked.env_vars or {},
        sub_paths=asked.sub_paths or (),
        delivery_mode=mode,
        webhook_url=asked.webhook_url,
    )


def _list_query(request: Request) -> RunQuery:
    """Raises InputError."""
    plain: dict[str, str] = {}
    metadata: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        given, key = (metadata, name.removeprefix(_METADATA)) if name.startswith(_METADATA) else (plain, name)
        if key in given:
            raise InputError(f"the query names {name[:80]!r} twice")
        given[key] = value
    if len(metadata) > METADATA_KEYS_MAX or any(len(word) > 1000 for word in (*metadata, *metadata.values())):
        raise InputError(f"the query may name {METADATA_KEYS_MAX} members of metadata, each of 1,000 characters")
    query = converted(plain, messages.ListQuery, "the query", strict=False)
    return RunQuery(
        limit=query.limit,
        cursor=query.cursor,
        status=query.status,
        thread_id=query.thread_id,
        since=None if query.since is None else _moment(query.since),
        metadata=metadata,
    )


def _moment(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                raise ValueError
            seconds = moment.timestamp()
        except (ValueError, OverflowError):
            raise InputError("since must be a time such as 2026-03-16T10:00:00Z, or seconds since 1970") from None
    if not 0 <= seconds < 1e11:
        raise InputError("since must be a time between 1970 and 5138")
    return seconds
