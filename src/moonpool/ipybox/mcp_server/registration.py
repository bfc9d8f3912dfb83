"""A server that an agent registers: somebody is asked, it is on record, then connected, written as a package and kept.

SECURITY: an agent describes a server, whose command runs on the host, or which gets what calls send. So a person
answers first, also under `--approve auto`; the parameters are shown as they came, placeholders and all. They name
variables only: neither stored secrets nor files of the host, and no `moonpool` block, which would give leave.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from moonpool.configuration.servers import McpConfig, parse_config
from moonpool.core.audit_records import CallOutcomeRecord, time_stamp
from moonpool.core.calls import ApprovalState
from moonpool.core.errors import ConfigError, Fault, InputError, MoonpoolError
from moonpool.core.json import digest_json
from moonpool.features.approvals.model import REGISTRATION, ApprovalRequest
from moonpool.ipybox.mcp_apigen import check_command, check_name, check_root, write_package
from moonpool.ipybox.mcp_server.outcomes import outcome_of
from moonpool.ipybox.registered_servers import registered
from moonpool.pipeline.readable_json import ARGUMENTS_CHARS_MAX, all_but_hidden
from moonpool.pipeline.shown_arguments import view_of
from moonpool.upstreams.base import UpstreamError
from moonpool.wrappers.names import name_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.runtime import Runtime
    from moonpool.features.approvals.model import ApprovalAnswer
    from moonpool.pipeline.approval import LiveApprovals
    from moonpool.tools.snapshot import ToolSnapshot

_log = logging.getLogger("moonpool.ipybox")
SOURCE: Final = "an agent's registration"
_KEYS: Final = frozenset({"command", "args", "env", "cwd", "url", "headers", "type"})
_REMEDY: Final = "put the server into a configuration file and start with --config FILE"

Asking: TypeAlias = "Callable[[str], AbstractContextManager[None]]"
"""Has questions about this id asked where its caller is."""


class RegistrationRefusedError(MoonpoolError):
    """Nobody approved the server that an agent wanted to register. Nothing was started."""

    code = "registration_refused"
    fault = Fault.CALLER

    def __init__(self, name: str, answer: ApprovalAnswer) -> None:
        why = answer.note or {ApprovalState.EXPIRED: "nobody answered in time"}.get(answer.state, "it was refused")
        super().__init__(f"the server {name!r} is not registered: {why}")


class AddsServers(Protocol):
    """What takes in servers (`moonpool.bootstrap.added_servers.AddedServers`)."""

    async def add(self, config: McpConfig, /) -> ToolSnapshot: ...


@dataclass(frozen=True, kw_only=True)
class Registration:
    """Registers servers of one workspace."""

    root: Path  # of the packages
    variables: Mapping[str, str]  # what `${VAR}` stands for
    runtime: Runtime
    servers: AddsServers
    approvals: LiveApprovals
    principal: str

    def waiting(self, run_id: str) -> Sequence[ApprovalRequest]:
        """See `Registers`."""
        return self.approvals.waiting(run_id)

    async def register(self, name: str, params: JsonObject, run_id: str, asking: Asking, /) -> Envelope:
        """Register it; `data` of the envelope is the names of its modules. `run_id` names the registration.

        Raises InputError, ConfigError, RegistrationRefusedError, JournalError; then nothing is changed.
        """
        try:
            check_name(name)
        except ValueError as error:
            raise InputError(str(error)) from None
        if unknown := sorted(params.keys() - _KEYS):
            raise InputError(f"server_params must not have {unknown[0]!r}; use {', '.join(sorted(_KEYS))}")
        check_command(params)
        if not all_but_hidden(params, ARGUMENTS_CHARS_MAX):  # SECURITY: a person answers to all of it
            raise InputError(
                f"server_params have more than the {ARGUMENTS_CHARS_MAX:,} characters that a person is shown; "
                f"make them shorter, or {_REMEDY}"
            )
        config = parsed(name, params, self.variables)
        if error := config.left_out.get(name):
            raise ConfigError(error.for_guest)
        await asyncio.to_thread(check_root, self.root)  # what cannot be written is not connected either
        begun = datetime.now(UTC)
        with asking(run_id):
            answer = await self.approvals.settle(self._question(name, params, config, run_id))
        allowed = answer.state is ApprovalState.APPROVED
        await self._record(name, params, run_id, answer, begun)
        if not allowed:
            raise RegistrationRefusedError(name, answer)
        try:
            snapshot = await self.servers.add(config)
        except UpstreamError as error:  # SECURITY: what it says of a server is the operator's; an agent gets the rest
            _log.warning("%s", error)
            raise ConfigError(error.for_guest) from None
        names = name_manifest(snapshot.manifest).servers[name]
        await asyncio.to_thread(write_package, snapshot, name, params, self.root)
        modules: list[JsonValue] = [tool.module for tool in names.tools.values()]
        return outcome_of(REGISTRATION, run_id, _digest(params), begun, modules)

    def _question(self, name: str, params: JsonObject, config: McpConfig, run_id: str) -> ApprovalRequest:
        view = view_of(params, self.runtime.redactor)
        server = config.servers[0]
        what = "its command runs on this machine, outside of the sandbox"
        return ApprovalRequest(
            request_id="",
            run_id=run_id,
            principal=self.principal,
            server_id=name,
            tool_name=REGISTRATION,
            arguments=view.text,
            arguments_digest=_digest(params),
            reason=what if server.command else f"code can call it, at {server.address}",
            remedy=_REMEDY,
            human_only=True,
            cut=view.cut,
            whole=view.whole,
        )

    async def _record(
        self, name: str, params: JsonObject, run_id: str, answer: ApprovalAnswer, begun: datetime
    ) -> None:
        """INVARIANT: on record before anything is started. Raises JournalError."""
        duration = (datetime.now(UTC) - begun).total_seconds() * 1000
        await self.runtime.journal.record(
            CallOutcomeRecord(
                run_id=run_id,
                trace_id=token_hex(16),
                call_id=0,
                at=time_stamp(datetime.now(UTC)),
                principal=self.principal,
                session_id="",
                code_digest="",
                server_id=name,
                tool_name=REGISTRATION,
                tool_digest="",
                arguments_digest=_digest(params),
                verdict="ask",
                rule_id="",
                approval=answer.state,
                approver=answer.approver,
                duration_ms=duration,
                result_bytes=0,
                result_digest="",
                error_type="" if answer.state is ApprovalState.APPROVED else "ApprovalRejected",
                asked_ms=duration,
            )
        )


def parsed(name: str, params: Mapping[str, Any], variables: Mapping[str, str]) -> McpConfig:
    """A server's parameters as a configuration of one. Raises ConfigError.

    SECURITY: without sources for `${secret:...}` and `${file:...}`, which are refused so.
    """
    text = json.dumps({"mcpServers": {name: params}}).encode()
    return parse_config(text, source=SOURCE, environ=variables, leave_out=True)


def registered_before(root: Path, environ: Mapping[str, str], variables: Mapping[str, str]) -> McpConfig:
    """The servers whose packages are in `root`, as they were registered. Raises ConfigError."""
    configs = [parsed(name, params, variables) for name, params in registered([root], environ).items()]
    return McpConfig(
        source=SOURCE,
        servers=tuple(server for config in configs for server in config.servers),
        left_out={name: error for config in configs for name, error in config.left_out.items()},
    )


def _digest(params: JsonObject) -> str:
    return digest_json(dict(params))
