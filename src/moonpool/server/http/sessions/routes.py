"""Sessions over HTTP, but for their files: each decodes, makes one call and encodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from starlette.responses import Response, StreamingResponse

from moonpool.catalog.render import one_line
from moonpool.core.errors import InputError
from moonpool.server.http.sessions import messages, operations, serialization
from moonpool.server.http.sessions.approvals import answer_question, answer_request, answerer_of, open_requests
from moonpool.server.http.sessions.bodies import body_of, json_answer, query_of, while_client_waits
from moonpool.server.http.sessions.errors import TooManySessionsError
from moonpool.server.http.sessions.lines import NDJSON
from moonpool.server.http.sessions.operations import Operation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from moonpool.catalog.catalog import Catalog
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions.registry import SessionRegistry
    from moonpool.server.http.sessions.running_code import RunningCode
    from moonpool.server.http.sessions.served_session import ServedSession, SessionOrigin

READERS_MAX: Final = 16
"""That read the lines of one session at the same time."""


class SessionRoutes:
    """The endpoints of one registry."""

    def __init__(self, registry: SessionRegistry) -> None:
        self._registry = registry
        self._readers: dict[str, int] = {}  # by session

    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        one = "/sessions/{session_id}"
        return (
            Operation(
                method="POST", path="/sessions", name="createSession", summary="Open a session",
                endpoint=self.create, body=messages.CreateSession, answer=messages.SessionAnswer, status=201,
            ),
            Operation(
                method="GET", path="/sessions", name="listSessions", summary="Your open sessions",
                endpoint=self.list, answer=messages.SessionList,
            ),
            Operation(
                method="GET", path=one, name="getSession", summary="One session", endpoint=self.get,
                answer=messages.SessionAnswer,
            ),
            Operation(
                method="DELETE", path=one, name="closeSession", summary="End a session and what runs in it",
                endpoint=self.close, status=204,
            ),
            Operation(
                method="POST", path=f"{one}/executions", name="runCode", endpoint=self.run,
                summary="Run code, and read what it tells as newline-delimited JSON; the result is the last line",
                body=messages.RunCode, answer="lines",
            ),
            Operation(
                method="GET", path=f"{one}/executions/{{execution_id}}/events", name="readEvents", endpoint=self.events,
                summary="Read the lines of an execution again, behind `after`, and on",
                query=operations.EventsQuery, answer="lines",
            ),
            Operation(
                method="DELETE", path=f"{one}/executions/{{execution_id}}", name="endExecution", endpoint=self.end,
                summary="End an execution that runs or waits; answers once it has ended", status=204,
            ),
            Operation(
                method="POST", path=f"{one}/interrupt", name="interrupt", endpoint=self.interrupt,
                summary="Interrupt the code that runs now", body=messages.Interrupt, status=204,
            ),
            Operation(
                method="POST", path=f"{one}/questions/{{question_id}}", name="answerQuestion", endpoint=self.answer,
                summary="Answer what a server asks", body=messages.AnswerQuestion, status=204,
            ),
            Operation(
                method="POST", path=f"{one}/reset", name="reset", endpoint=self.reset,
                summary="Begin anew: variables and files are gone", answer=messages.SessionAnswer,
            ),
            Operation(
                method="POST", path=f"{one}/packages", name="installPackages", endpoint=self.install,
                summary="Install packages", body=messages.InstallPackages, answer=messages.Installed,
            ),
            Operation(
                method="POST", path=f"{one}/checkpoints", name="takeCheckpoint", endpoint=self.checkpoint,
                summary="Keep the state under a name", body=messages.TakeCheckpoint, answer=messages.CheckpointAnswer,
            ),
            Operation(
                method="POST", path=f"{one}/undo", name="undo", endpoint=self.undo, body=messages.Undo,
                summary="Put variables and files back", answer=messages.UndoAnswer,
            ),
            Operation(
                method="POST", path=f"{one}/fork", name="fork", endpoint=self.fork, status=201,
                summary="Another session that begins with the state of this one", answer=messages.SessionAnswer,
            ),
            Operation(
                method="POST", path=f"{one}/network", name="changeNetwork", endpoint=self.network,
                summary="Change what the code may reach", body=messages.ChangeNetwork, answer=messages.SessionAnswer,
            ),
            Operation(
                method="GET", path=f"{one}/tools", name="listTools", endpoint=self.tools, query=operations.ToolsQuery,
                summary="All tools, or those of one server", answer=messages.ToolList,
            ),
            Operation(
                method="POST", path=f"{one}/tools/search", name="searchTools", endpoint=self.search,
                summary="The tools that fit one question or several best",
                body=messages.SearchTools, answer=messages.ToolList,
            ),
            Operation(
                method="GET", path=f"{one}/tools/definition", name="getDefinition", endpoint=self.definition,
                summary="All of a tool's definition", query=operations.DefinitionQuery, answer=messages.Definition,
            ),
            Operation(
                method="GET", path="/approvals", name="listApprovals", endpoint=self.approvals, scope="approve",
                summary="Calls of your organisation's sessions that wait for an answer", answer=messages.ApprovalList,
            ),
            Operation(
                method="POST", path="/approvals/{request_id}", name="answerApproval", endpoint=self.approve, scope=None,
                summary="Answer a call that waits: a yes needs the scope approve, and that it is not your own code's",
                body=messages.AnswerApproval, status=204,
            ),
        )  # fmt: skip

    # --- sessions

    async def create(self, request: Request, caller: HttpCaller) -> Response:
        wanted = await body_of(request, messages.CreateSession)
        session = await self._registry.create(caller, wanted)
        return json_answer(self._told(session), 201, {"location": f"/v1/sessions/{session.session_id}"})

    async def list(self, request: Request, caller: HttpCaller) -> Response:
        del request
        return json_answer(messages.SessionList(sessions=tuple(map(self._told, self._registry.all_of(caller)))))

    async def get(self, request: Request, caller: HttpCaller) -> Response:
        return json_answer(self._told(self._session(request, caller)))

    async def close(self, request: Request, caller: HttpCaller) -> Response:
        await self._registry.close(caller, request.path_params["session_id"])
        return Response(status_code=204)

    async def fork(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        await body_of(request, messages.NoBody)
        with session.in_use():
            forked = await while_client_waits(request, self._registry.fork(caller, session))
        return json_answer(self._told(forked), 201, {"location": f"/v1/sessions/{forked.session_id}"})

    def _session(self, request: Request, caller: HttpCaller) -> ServedSession:
        return self._registry.get(caller, request.path_params["session_id"])

    def _told(self, session: ServedSession) -> messages.SessionAnswer:
        now = self._registry.now
        return messages.SessionAnswer(
            id=session.session_id,
            environment=session.environment,
            name=session.origin.wanted.name or "",
            age_s=round(now - session.begun_at, 3),
            unused_s=0.0 if session.is_busy else round(now - session.used_at, 3),
            terminal=_kept_order(session.origin),
            archive_skipped=session.archive_skipped,
            expires_in_s=round(max(0.0, session.expires_at - now), 3),
            idle_s=session.origin.idle_s,
            state=session.state,
            usage=session.usage,
        )

    # --- executions

    async def run(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        with session.in_use():
            asked = await body_of(request, messages.RunCode)
            self._check_readers(session)
            known = asked.id is not None and session.knows(asked.id)
            ended = None if known else await self._registry.limiter.begin(caller)
            execution = session.run(asked, ended)
        return self._stream(session, execution, 0, attended=asked.attended)

    async def events(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        query = query_of(request, operations.EventsQuery)
        execution = session.execution(request.path_params["execution_id"])
        self._check_readers(session)
        return self._stream(session, execution, query.after)

    def _check_readers(self, session: ServedSession) -> None:
        if self._readers.get(session.session_id, 0) >= READERS_MAX:
            raise TooManySessionsError(f"{READERS_MAX} clients read events of this session already; end one of them")

    def _stream(
        self, session: ServedSession, execution: RunningCode, after: int, *, attended: bool = False
    ) -> Response:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        lines = self._lines(session, execution, after, attended=attended)
        return StreamingResponse(lines, media_type=NDJSON, headers=headers)

    async def _lines(
        self, session: ServedSession, execution: RunningCode, after: int, *, attended: bool
    ) -> AsyncIterator[bytes]:
        self._readers[session.session_id] = self._readers.get(session.session_id, 0) + 1
        try:
            with session.in_use():
                async for line in execution.read(after):
                    yield line
        finally:
            self._readers[session.session_id] -= 1
            if not self._readers[session.session_id]:
                del self._readers[session.session_id]
            if attended and not execution.is_over:
                session.abandon(execution)

    async def end(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        with session.in_use():
            await session.end(request.path_params["execution_id"])
        return Response(status_code=204)

    async def interrupt(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        session.interrupt(await body_of(request, messages.Interrupt))
        return Response(status_code=204)

    # --- questions

    async def answer(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        given = await body_of(request, messages.AnswerQuestion)
        question = session.question(request.path_params["question_id"])
        by = answerer_of(caller, given.by)
        if given.how == "accept":
            question.accept(given.content, by=by)
        elif given.how == "sampled":
            if given.content is None:
                raise InputError("what the model said stands in `content`")
            question.sampled(given.content, by=by)
        elif given.how == "decline":
            question.decline(by=by)
        else:
            question.cancel(by=by)
        return Response(status_code=204)

    async def approvals(self, request: Request, caller: HttpCaller) -> Response:
        del request
        found = tuple(
            messages.OpenApproval(
                principal=queued.request.principal,
                session_id=queued.request.session_id,
                request=serialization.approval_body(queued.request),
            )
            for queued in await open_requests(await self._registry.approvals(caller))
        )
        return json_answer(messages.ApprovalList(approvals=found))

    async def approve(self, request: Request, caller: HttpCaller) -> Response:
        given = await body_of(request, messages.AnswerApproval)
        request_id = request.path_params["request_id"]
        for question in self._registry.asked_at_terminal(caller):
            if question.request.request_id == request_id:
                await answer_question(question, caller, given)
                return Response(status_code=204)
        await answer_request(await self._registry.approvals(caller), caller, request_id, given)
        return Response(status_code=204)

    # --- orders

    async def reset(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        await body_of(request, messages.NoBody)
        with session.in_use():
            await while_client_waits(request, session.reset())
        return json_answer(self._told(session))

    async def install(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        asked = await body_of(request, messages.InstallPackages)
        with session.in_use():
            done = await while_client_waits(request, session.install(asked.packages))
        return json_answer(
            messages.Installed(
                new=tuple(messages.Package(name=p.name, version=p.version, sha256=p.sha256) for p in done.new),
                packages=tuple(
                    messages.Package(name=p.name, version=p.version, sha256=p.sha256) for p in done.packages
                ),
                size=done.size,
                cached=done.cached,
            )
        )

    async def checkpoint(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        asked = await body_of(request, messages.TakeCheckpoint)
        with session.in_use():
            taken = await while_client_waits(request, session.checkpoint(asked.name))
        return json_answer(
            messages.CheckpointAnswer(checkpoint=serialization.checkpoint_ref(taken), state=session.state)
        )

    async def undo(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        asked = await body_of(request, messages.Undo)
        with session.in_use():
            undone = await while_client_waits(request, session.undo(asked))
        return json_answer(messages.UndoAnswer(undone=serialization.undone_body(undone), state=session.state))

    async def network(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        session.change_network(await body_of(request, messages.ChangeNetwork))
        return json_answer(self._told(session))

    # --- tools

    async def tools(self, request: Request, caller: HttpCaller) -> Response:
        query = query_of(request, operations.ToolsQuery)
        catalog = await self._catalog(request, caller)
        return json_answer(
            messages.ToolList(
                tools=tuple(
                    messages.ToolBody(
                        server=entry.server_id,
                        name=entry.tool_name,
                        path=catalog.path(catalog.find(entry.server_id, entry.tool_name)),
                        description=one_line(entry.description),
                    )
                    for entry in catalog.list(query.server)
                )
            )
        )

    async def search(self, request: Request, caller: HttpCaller) -> Response:
        asked = await body_of(request, messages.SearchTools)
        catalog = await self._catalog(request, caller)
        return json_answer(
            messages.ToolList(
                tools=tuple(
                    messages.ToolBody(
                        server=hit.entry.server_id,
                        name=hit.entry.tool_name,
                        path=hit.path,
                        description=one_line(hit.entry.description),
                    )
                    for hit in catalog.search(asked.queries, server=asked.server, limit=asked.limit)
                )
            )
        )

    async def definition(self, request: Request, caller: HttpCaller) -> Response:
        query = query_of(request, operations.DefinitionQuery)
        catalog = await self._catalog(request, caller)
        if (kept := catalog.find_kept(query.path)) is not None:
            found = catalog.kept_definition(kept, query.form)
        else:
            tool = catalog.find_path(query.path)
            found = catalog.definition(tool.server_id, tool.name, query.form)
        return json_answer(messages.Definition(definition=cast("str | dict[str, Any]", found)))

    async def _catalog(self, request: Request, caller: HttpCaller) -> Catalog:
        session = self._session(request, caller)
        with session.in_use():
            return await session.origin.tenant.catalog.get()


def _kept_order(origin: SessionOrigin) -> messages.KeptOrder | None:
    """What a session of a terminal was opened with."""
    wanted, order = origin.wanted, origin.wanted.terminal
    if order is None:
        return None
    return messages.KeptOrder(
        backend=origin.runtime.settings.backend,
        config=order.config or "",
        config_digest=order.config_digest,
        policy_digest=order.policy_digest,
        network=() if wanted.network is None else wanted.network.allow,
        workspace=order.workspace,
    )
