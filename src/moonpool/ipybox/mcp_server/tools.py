"""`IpyboxTools`: the four tools of one connection. Each reads its arguments, makes one call and answers in text."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from moonpool.core.errors import InputError, MoonpoolError
from moonpool.core.json import digest_json
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.packages.model import PackageError
from moonpool.engine.request_state import RequestStateError
from moonpool.ipybox.mcp_server.definitions import (
    DEFINITIONS,
    EXECUTE,
    INSTALL,
    OFFER,
    OUTPUT_CHARS,
    REGISTER,
    TIMEOUT_S,
)
from moonpool.ipybox.mcp_server.kernel import Kernel
from moonpool.ipybox.mcp_server.outcomes import outcome_of
from moonpool.pipeline.validation import SchemaChecks
from moonpool.server.mcp.answers import Answer, problem_answer, text_answer
from moonpool.server.mcp.connection_calls import CallingApp, ConnectionCalls, InputNeeded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.pending_calls import ParkedCall
    from moonpool.engine.runtime import Runtime
    from moonpool.features.approvals.model import ApprovalRequest
    from moonpool.ipybox.mcp_server.kernel import KernelHome, Stay
    from moonpool.ipybox.mcp_server.registration import Asking
    from moonpool.server.mcp.client_requests import Bindings
    from moonpool.server.mcp.connection_calls import Caller
    from moonpool.server.mcp.tool_set import Offer

_CHECKS: Final = SchemaChecks()


class ProfileApp(CallingApp, Protocol):
    """What this profile needs of the application (`moonpool.bootstrap.Tenant`)."""

    @property
    def runtime(self) -> Runtime: ...


class Registers(Protocol):
    """What `register_mcp_server` does."""

    async def register(self, name: str, params: JsonObject, run_id: str, asking: Asking, /) -> Envelope:
        """`data` of the envelope is the names of the server's modules. Raises MoonpoolError."""
        ...

    def waiting(self, run_id: str, /) -> Sequence[ApprovalRequest]:
        """What a registration asks about now."""
        ...


class IpyboxTools:
    """The tools of one connection, with one kernel."""

    resources = None  # this profile has none, and no prompt

    def __init__(
        self,
        app: ProfileApp,
        bindings: Bindings,
        home: KernelHome,
        registration: Registers,
        *,
        offer: Offer = OFFER,
        stay: Stay | None = None,
    ) -> None:
        """Sessions of `app` have the home."""
        self.offer, self.tracing = offer, app.runtime.tracing
        self._bindings, self._is_here = bindings, home.is_here
        self._grant = bindings.caller_grant(app.caller_grant)
        self._timeout_s = min(TIMEOUT_S, app.settings.timeout_s_max)
        self._calls = ConnectionCalls(app, bindings, self._waiting)
        ipython = app.settings.environment == "data"
        self._kernel = Kernel(app.runtime, self._grant, home, ipython=ipython, stay=stay)
        self._registration = registration
        self._registering = asyncio.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a call goes on; closing these tools would end it."""
        return self._calls.is_busy

    def prepare(self) -> None:
        """Nothing: a sandbox with a folder of the host is made when it is needed."""

    def list_tools(self) -> list[JsonObject]:
        return list(self.offer.tools)

    async def instructions(self) -> str:
        """The handshake's text."""
        return self.offer.how

    def instructions_now(self) -> str:
        return self.offer.how

    async def call(self, name: str, arguments: Mapping[str, JsonValue], caller: Caller) -> Answer | InputNeeded:
        """Call one of the four tools. Raises RequestStateError."""
        try:
            given = _checked(name, arguments)
            if name == EXECUTE:
                return await self._execute(given, caller)
            if name == REGISTER:
                return await self._register(given, caller)
            if name == INSTALL:
                return await self._install(given, caller)
            await self._kernel.reset()
            return text_answer("")
        except RequestStateError:
            raise
        except PackageError as error:  # a model is not told how to change a rule
            return Answer(text=f"{error.for_guest} [{error.code}]", is_error=True)
        except MoonpoolError as error:
            return problem_answer(error, hides_host=self._grant.hides_host)

    def leave(self) -> int:
        """The client has disconnected; returns how many executions continue because they wait in the queue."""
        return self._calls.leave()

    async def wait_spared(self) -> None:
        """Wait until those executions have ended."""
        await self._calls.wait_spared()

    async def close(self) -> None:
        """End every call and the kernel."""
        await self._calls.close()
        await self._kernel.close()

    async def _execute(self, given: JsonObject, caller: Caller) -> Answer | InputNeeded:
        timeout, chars = given.get("timeout"), given.get("max_output_chars")
        request = CodeRequest(
            code=cast("Any", given["code"]),
            timeout_s=self._timeout_s if timeout is None else float(cast("float", timeout)),
        )
        chars_max = OUTPUT_CHARS if chars is None else int(cast("int", chars))
        outcome = await self._calls.outcome(
            EXECUTE, digest_json(given), lambda call: self._run(request, chars_max, call, caller), caller
        )
        if isinstance(outcome, InputNeeded):
            return outcome
        cell = cast("JsonObject", outcome.data)
        pictures = () if self._is_here else outcome.pictures
        return Answer(text=str(cell["text"]), is_error=cell["failed"] is True, pictures=pictures)

    async def _run(self, request: CodeRequest, chars_max: int, call: ParkedCall, caller: Caller) -> Envelope:
        code = replace(
            request,
            observer=call.hear,
            begun=call.run_ids.append,
            progress=None if caller.listener is None else call.hear_progress,
        )
        with self._bindings.binding(call, caller.asker(call)):
            return await self._kernel.execute(code, chars_max)

    async def _install(self, given: JsonObject, caller: Caller) -> Answer | InputNeeded:
        digest, begun = digest_json(given), datetime.now(UTC)

        async def work(_: ParkedCall) -> Envelope:
            told = await self._kernel.install(str(given["package_name"]))
            return outcome_of(INSTALL, f"run_{token_hex(16)}", digest, begun, told)

        outcome = await self._calls.outcome(INSTALL, digest, work, caller)
        return outcome if isinstance(outcome, InputNeeded) else text_answer(str(outcome.data))

    async def _register(self, given: JsonObject, caller: Caller) -> Answer | InputNeeded:
        async def work(call: ParkedCall) -> Envelope:
            run_id = f"run_{token_hex(16)}"
            call.run_ids.append(run_id)
            asker = caller.asker(call)
            async with self._registering:
                return await self._registration.register(
                    str(given["server_name"]),
                    cast("JsonObject", given["server_params"]),
                    run_id,
                    lambda one: self._bindings.asking(one, asker),
                )

        outcome = await self._calls.outcome(REGISTER, digest_json(given), work, caller)
        if isinstance(outcome, InputNeeded):
            return outcome
        return text_answer("\n".join(map(str, cast("list[str]", outcome.data))))

    def _waiting(self, run_id: str) -> list[ApprovalRequest]:
        return [*self._grant.waiting(run_id), *self._registration.waiting(run_id)]


def _checked(name: str, arguments: Mapping[str, JsonValue]) -> JsonObject:
    """The arguments. Raises InputError, which lists all problems and the valid parameters."""
    definition, given = DEFINITIONS[name], dict(arguments)
    if problem := _CHECKS.arguments(definition).argument_problem(definition, given):
        raise InputError(problem.replace(f"{definition.server_id}.{name}", name))
    try:
        digest_json(given)
    except (ValueError, RecursionError):
        raise InputError(f"an argument of {name} holds what JSON cannot carry; remove it") from None
    return given
