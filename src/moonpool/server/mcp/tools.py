"""The tools: each decodes its arguments, makes one call into catalog or engine, and encodes the answer.

Refusals are tool errors, which a model can read and act on (2025-11-25; X-02): bad arguments, an unknown server or tool
with similar names, code that is too large. Any other failure is a bug and answered with -32603.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.catalog.filters import only_tools
from moonpool.catalog.levels import definitions_if_few
from moonpool.catalog.render import hit_lines, one_line
from moonpool.core.errors import InputError, MoonpoolError
from moonpool.core.json import digest_json
from moonpool.engine.current_catalog import CurrentCatalog
from moonpool.engine.kept_executions import ExecutionLostError
from moonpool.engine.request_state import RequestStateError
from moonpool.features.usage.context_usage import ContextUsage
from moonpool.server.mcp.answers import (
    Answer,
    execution_answer,
    kept_answer,
    lost_answer,
    problem_answer,
    running_answer,
    text_answer,
)
from moonpool.server.mcp.arguments import DefinitionRequest, ExecuteRequest, SearchRequest, read_arguments
from moonpool.server.mcp.client_requests import WaitingClient
from moonpool.server.mcp.connection_calls import Caller, CallingApp, ConnectionCalls, InputNeeded, Running, WaitRequest
from moonpool.server.mcp.context_usage import own_tools_text
from moonpool.server.mcp.definitions import EXECUTE, SEARCH, WAIT
from moonpool.server.mcp.instructions import instructions
from moonpool.server.mcp.previews import Previews
from moonpool.server.mcp.resources import McpResources
from moonpool.server.mcp.sessions import McpSessions
from moonpool.server.mcp.tool_set import offer_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.catalog.catalog import Catalog
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.current_catalog import Vectors
    from moonpool.engine.pending_calls import ParkedCall
    from moonpool.engine.runtime import Runtime
    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.features.learned_types.service import LearnedTypes
    from moonpool.server.mcp.client_requests import Bindings
    from moonpool.server.mcp.sandbox_services import SandboxServices
    from moonpool.tracing.spans import Tracing

ANSWER_CHARS_MAX: Final = 8 * 1024**2


class ServedApp(CallingApp, Protocol):
    """What the MCP server needs of the application (`moonpool.bootstrap.Tenant`)."""

    @property
    def tenant_id(self) -> str: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def tool_registry(self) -> ToolRegistry: ...
    @property
    def learned_types(self) -> LearnedTypes: ...
    @property
    def vectors(self) -> Vectors | None: ...
    @property
    def sandbox_services(self) -> SandboxServices | None:
        """Executions by one call and stored trees; None: this process offers neither."""
        ...


class CodeTools:
    """The tools of one connection."""

    def __init__(self, app: ServedApp, bindings: Bindings) -> None:
        self._bindings = bindings
        self._caller_grant = bindings.caller_grant(app.caller_grant)
        self._hides_host = app.caller_grant.hides_host
        settings = app.settings
        self.offer = offer_of(settings.catalog, settings.environment)
        self._calls = ConnectionCalls(app, bindings, self._caller_grant.waiting)
        self._runtime, self._tool_registry, self._learned_types = app.runtime, app.tool_registry, app.learned_types
        self._definitions_shown = False
        self.disclosure = ContextUsage(app.runtime.tokens, app.runtime.journal, app.caller_grant.principal)
        searched = SEARCH in self.offer.names
        self._catalog = CurrentCatalog(app.tool_registry, app.vectors if searched else None)
        self._previews = Previews(app.tool_registry, code_bytes_max=settings.code_bytes_max)
        self._sessions = McpSessions(app.runtime, idle_s=app.settings.session_idle_s)
        self.resources = McpResources(self._sessions, app.runtime.redactor)

    @property
    def tracing(self) -> Tracing | None:
        return self._runtime.tracing

    @property
    def is_busy(self) -> bool:
        """Whether an execution goes on; closing these tools would end it."""
        return self._calls.is_busy

    def prepare(self) -> None:
        """List tools and open sandboxes now, before the first request. One with folders is opened when it is needed."""
        self._catalog.load_soon()
        if self._runtime.folders is None:
            self._runtime.pool.fill(self._runtime.sandbox_spec)

    async def close(self) -> None:
        """End every call and session of this connection."""
        await self._catalog.close()
        await self._calls.close()
        await self._sessions.close()
        await self.disclosure.close()

    def leave(self) -> int:
        """The client has disconnected; returns how many executions continue because they wait in the queue of
        approvals.
        """
        return self._calls.leave()

    async def wait_spared(self) -> None:
        """Wait until those executions have ended."""
        await self._calls.wait_spared()

    async def call(self, name: str, arguments: Mapping[str, JsonValue], caller: Caller) -> Answer | InputNeeded:
        """Call one of the offered tools. Raises RequestStateError."""
        assert name in self.offer.names
        try:
            match read_arguments(name, arguments):
                case SearchRequest() as search:
                    return await self._search(search)
                case DefinitionRequest() as define:
                    return await self._define(define)
                case ExecuteRequest() as execute:
                    return await self._execute(execute, arguments, caller)
                case WaitRequest() as wait:
                    return await self._wait(wait, caller)
        except RequestStateError:
            raise
        except MoonpoolError as error:
            structured = name in {EXECUTE, WAIT}
            return problem_answer(error, structured=structured, hides_host=self._hides_host)

    async def instructions(self) -> str:
        """The handshake's text; lists all servers' tools first, so it may take as long as the slowest server."""
        catalog = await self._current()
        library = catalog.library_line()
        left_out = self._tool_registry.left_out
        unlisted = catalog.missing.keys() - left_out.keys()
        told = instructions(
            catalog.servers(), unavailable=unlisted, left_out=left_out, library=library, how=self.offer.how
        )
        return self._counted(told)

    def instructions_now(self) -> str:
        """The same from tools that are known already."""
        left_out = self._tool_registry.left_out
        unlisted = [one for one in self._tool_registry.server_ids if one not in left_out]
        return self._counted(instructions((), unlisted, left_out=left_out, how=self.offer.how))

    def list_tools(self) -> list[JsonObject]:
        """The tools of this server."""
        self.disclosure.showed("own_tools", own_tools_text(self.offer.tools), once=True)
        return list(self.offer.tools)

    def _counted(self, text: str) -> str:
        self.disclosure.showed("manifest", text, once=True)
        return text

    async def _current(self) -> Catalog:
        catalog = await self._catalog.get()
        self._know_tools()
        return catalog

    def _know_tools(self) -> None:
        if (snapshot := self._tool_registry.current) is not None:
            self.disclosure.know(snapshot)

    async def _search(self, request: SearchRequest) -> Answer:
        catalog = await self._current()
        only = only_tools(read_only=request.read_only)
        hits = catalog.search(request.queries, server=request.server, limit=request.limit, only=only)
        lines = [hit_lines(hits, narrowed=bool(request.server or only))]
        if few := await self._definitions_once(catalog):
            lines.append(f"\nAll definitions, because there are few tools:\n\n{few}")
        if catalog.missing:
            lines.append(f"Not available now: {', '.join(one_line(name, 60) for name in sorted(catalog.missing))}")
        text = "\n".join(lines)
        self.disclosure.showed("search", text)
        return text_answer(text)

    async def _define(self, request: DefinitionRequest) -> Answer:
        catalog = await self._current()
        found, refused = await self._definitions(catalog, request)
        if not found:
            raise refused[0]
        if request.form == "json":
            whole = found[0] if len(request.paths) == 1 else [*found, *({"error": str(error)} for error in refused)]
            text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
        else:
            text = "\n\n".join([*map(str, found), *(f"# {error}" for error in refused)])
        if len(text) > ANSWER_CHARS_MAX:
            raise InputError(f"the definitions are {len(text):,} characters long; ask for fewer at a time")
        self.disclosure.showed("definition", text)
        return text_answer(text)

    async def _execute(
        self, request: ExecuteRequest, arguments: Mapping[str, JsonValue], caller: Caller
    ) -> Answer | InputNeeded:
        if request.preview and caller.state is None:
            return await self._previews.answer(request.code)
        key = digest_json(dict(arguments))
        reached = await self._calls.begun(
            EXECUTE, key, lambda call: self._work(request, call, caller), caller, request.patience_s
        )
        return self._answer(reached, request.session)

    async def _wait(self, request: WaitRequest, caller: Caller) -> Answer | InputNeeded:
        try:
            reached = await self._calls.wait(WAIT, request, caller)
        except ExecutionLostError as lost:
            return lost_answer(request.execution_id, lost)
        if isinstance(reached, dict):
            return kept_answer(reached, hides_host=self._hides_host)
        return self._answer(reached, self._calls.session_of(request.execution_id))

    async def _work(self, request: ExecuteRequest, call: ParkedCall, caller: Caller) -> Envelope:
        call.session = request.session
        code = replace(
            request.code,
            run_id=call.call_id,
            observer=call.hear,
            begun=call.run_ids.append,
            progress=None if caller.listener is None else call.hear_progress,
            connection=self.disclosure,
        )
        self._know_tools()
        self.disclosure.ran()
        with self._bindings.binding(call, None if caller.asker(call) is None else WaitingClient(call)):
            envelope = await self._sessions.execute(code, self._caller_grant, request.session)
        self.resources.know(envelope, request.session)
        return envelope

    async def _definitions(
        self, catalog: Catalog, request: DefinitionRequest
    ) -> tuple[list[str | JsonObject], list[MoonpoolError]]:
        found: list[str | JsonObject] = []
        refused: list[MoonpoolError] = []
        for path in request.paths:
            if (entry := catalog.find_kept(path)) is not None:
                found.append(catalog.kept_definition(entry, request.form))
                continue
            try:
                tool = catalog.find_path(path)
            except MoonpoolError as error:
                refused.append(error)
            else:
                learned_type = await self._learned_types.of(self._caller_grant.principal, tool)
                found.append(catalog.definition(*tool.key, request.form, learned_type=learned_type))
        return found, refused

    async def _definitions_once(self, catalog: Catalog) -> str:
        """With the first search of this connection every definition, if there are few; see `catalog.levels`."""
        if self._definitions_shown:
            return ""
        self._definitions_shown = True
        return await asyncio.to_thread(definitions_if_few, catalog, lambda tool: catalog.definition(*tool.key))

    def _answer(self, reached: Envelope | InputNeeded | Running, session: str | None) -> Answer | InputNeeded:
        if isinstance(reached, InputNeeded):
            return reached
        if isinstance(reached, Running):
            return running_answer(reached, WAIT)
        return execution_answer(reached, session, hides_host=self._hides_host)
