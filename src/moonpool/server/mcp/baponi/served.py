"""One request to one answer: the profile's methods and tools, and what is said of errors.

An error in the code that ran, or in what a model chose (a file that is not there, a thread in use), is a result with
`isError`; a request that the client has to correct, and a fault of ours, is a JSON-RPC error (J-029).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, cast

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from moonpool.catalog.render import one_line
from moonpool.core.errors import Fault, InputError, MoonpoolError, told
from moonpool.pipeline.validation import SchemaChecks
from moonpool.server.mcp.baponi.definitions import (
    DEFINITIONS,
    DOWNLOAD,
    EXECUTE,
    PROFILE,
    TOOLS,
    VERSION,
    handshake,
)
from moonpool.server.mcp.baponi.downloads import DownloadError, Wanted, download
from moonpool.server.mcp.baponi.execution import order_of, result_text
from moonpool.server.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Invalid,
    error_payload,
    result_payload,
)
from moonpool.server.mcp.sandbox_services import services_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.sandbox_runs.base import SandboxRun
    from moonpool.server.mcp.client_requests import Bindings
    from moonpool.server.mcp.messages import Payload, Request
    from moonpool.server.mcp.sandbox_services import CallerSetup, SandboxApp

_CHECKS: Final = SchemaChecks()
_log = logging.getLogger(__name__)


class _RefusedError(Exception):
    """A JSON-RPC error, with its code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class BaponiTools:
    """The profile's tools for one caller (`server.mcp.stateless.StatelessTools`)."""

    def __init__(self, app: SandboxApp, bindings: Bindings) -> None:
        """Raises ProfileUnavailableError."""
        self._services = services_of(app, PROFILE)
        self._grant = bindings.caller_grant(app.caller_grant)
        self._redactor = app.runtime.redactor
        self._runs: set[SandboxRun] = set()
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether an execution goes on; `close` would end it."""
        return bool(self._runs)

    def prepare(self) -> None:
        """Nothing: sandboxes are chosen by the configuration of each call."""

    def runs(self, name: object, /) -> bool:
        """See `StatelessTools`."""
        return name == EXECUTE

    async def close(self) -> None:
        """Cancel every execution, and wait for their ends."""
        self._is_closed = True
        runs = tuple(self._runs)
        for run in runs:
            run.cancel()
        await asyncio.gather(*(run.result() for run in runs), return_exceptions=True)

    async def answer(self, request: Request, /) -> Payload:
        """See `StatelessTools`."""
        try:
            return result_payload(request.id, await self._result(request.method, request.params or {}))
        except _RefusedError as refused:
            code, message = refused.code, str(refused)
        except InputError as error:
            code, message = INVALID_PARAMS, str(error)
        except MoonpoolError as error:
            _log.warning("a call of the profile %s failed: %s", PROFILE, error)
            code, message = INTERNAL_ERROR, told(error, hides_host=self._grant.hides_host)
        except Exception:  # noqa: BLE001  SECURITY: the client must not see any of it
            _log.exception("a bug while answering %s", one_line(request.method, 100))
            code, message = INTERNAL_ERROR, "Internal error; the server's log says more"
        return error_payload(Invalid(code, message, request.id))

    async def _result(self, method: str, params: Payload) -> JsonObject:
        match method:
            case "initialize":
                asked = params.get("protocolVersion")
                return handshake(asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else VERSION)
            case "ping":
                return {}
            case "tools/list":
                if params.get("cursor") is not None:
                    raise _RefusedError(INVALID_PARAMS, "Invalid cursor: there is one page, and none was given out")
                offered = _offered(await self._services.setup(self._grant))
                return {"tools": [tool for name, tool in TOOLS.items() if name in offered]}
            case "tools/call":
                return await self._call(params)
            case _:
                raise _RefusedError(METHOD_NOT_FOUND, f"Method not found: {one_line(method, 200)}")

    async def _call(self, params: Payload) -> JsonObject:
        name, given = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(given, dict):
            raise _RefusedError(INVALID_PARAMS, "tools/call needs the name of a tool, and arguments as an object")
        setup = await self._services.setup(self._grant)
        if name not in _offered(setup):  # SECURITY: one that is switched off is unknown, too
            raise _RefusedError(INVALID_PARAMS, f"Unknown tool: {one_line(name, 100)}")
        arguments = cast("JsonObject", given)
        definition = DEFINITIONS[name]
        if problem := _CHECKS.arguments(definition).argument_problem(definition, arguments):
            raise InputError(problem.replace(f"{PROFILE}.{name}", name))
        if name == EXECUTE:
            return await self._execute(setup, arguments)
        try:
            content = await download(Wanted.of(arguments), setup, self._services.trees, self._redactor)
        except DownloadError as error:
            return _text_result(str(error), is_error=True)
        return {"content": [content], "isError": False}

    async def _execute(self, setup: CallerSetup, arguments: Mapping[str, JsonValue]) -> JsonObject:
        order = order_of(arguments)
        try:
            run = await self._services.runs.begin(setup.owner, order)
        except InputError:
            raise
        except MoonpoolError as error:
            if error.fault is not Fault.CALLER:
                raise
            return _text_result(str(error), is_error=True)  # a thread in use, a full one: a model can go on
        self._runs.add(run)
        if self._is_closed:  # SECURITY: its key was revoked while this request was on its way
            run.cancel()
        try:
            result = await run.result()
        except asyncio.CancelledError:  # its client has left, and nobody else waits for it
            run.cancel()
            raise
        finally:
            self._runs.discard(run)
        return _text_result(result_text(result), is_error=not result.success)


def _offered(setup: CallerSetup) -> frozenset[str]:
    """The tools that this caller has."""
    configuration = setup.owner.configuration
    has_files = configuration.has_storage or bool(configuration.volumes)
    has = {EXECUTE: setup.executes, DOWNLOAD: has_files}
    return frozenset(name for name, there in has.items() if there) - setup.tools_off


def _text_result(text: str, *, is_error: bool) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}
