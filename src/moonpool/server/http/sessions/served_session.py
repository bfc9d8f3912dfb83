"""One session as a service has it: the engine's session, its executions, and when somebody used it last."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from moonpool.core.languages import PYTHON, is_typescript, language_of
from moonpool.engine.branches import Checkpoint
from moonpool.engine.code_request import CodeRequest, check_request
from moonpool.features.approvals.model import ApprovalAnswerError
from moonpool.network.rules import HeaderCredential, NetworkRules, parse_domain
from moonpool.sandboxes.shielding import finish
from moonpool.server.http.sessions import messages, serialization
from moonpool.server.http.sessions.errors import (
    ExecutionIdUsedError,
    ExecutionUnwantedError,
    TooManySessionsError,
    UnknownSessionError,
)
from moonpool.server.http.sessions.running_code import RunningCode
from moonpool.server.http.sessions.tenants import (
    EXECUTIONS_KEPT_BYTES_MAX,
    EXECUTIONS_KEPT_MAX,
    EXECUTIONS_OPEN_MAX,
    WAITING_CODE_CHARS_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from moonpool.core.envelope import Envelope
    from moonpool.engine.branches import Undone
    from moonpool.engine.packages.model import InstalledPackages
    from moonpool.engine.runtime import Runtime
    from moonpool.engine.server_request_events import ServerQuestion
    from moonpool.engine.sessions import Session
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.sandboxes.host_folders import HostFolders
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions.lines import PrintedLine, ResultLine
    from moonpool.server.http.sessions.tenants import SessionTenant

_T = TypeVar("_T")
_UNWANTED_MAX: Final = 64


@dataclass(frozen=True, kw_only=True)
class SessionOrigin:
    """What a session is made of, again after a reset."""

    caller: HttpCaller
    tenant: SessionTenant
    runtime: Runtime
    grant: CallerGrant
    wanted: messages.CreateSession
    idle_s: float
    lifetime_s: float
    folders: HostFolders | None = None
    release: Callable[[], Awaitable[None]] | None = None
    """Gives back what only this session used, once it has ended."""

    @property
    def is_terminal(self) -> bool:
        """Whether it is one of `moonpool run --session`."""
        return self.wanted.terminal is not None


class ServedSession:
    """One session. Its methods raise what the engine's do."""

    def __init__(self, origin: SessionOrigin, session: Session, *, now: float) -> None:
        self.session_id = session.session_id
        self.origin, self._session = origin, session
        self.begun_at = self.used_at = now
        self.expires_at = now + origin.lifetime_s
        self.archive_skipped = 0
        self.usage = messages.UsageState()
        self.is_closed = False
        self._executions: dict[str, RunningCode] = {}  # the oldest first
        self._unwanted: deque[str] = deque(maxlen=_UNWANTED_MAX)  # ids of executions that were ended before they came
        self._users = 0
        self._orders: set[asyncio.Future[object]] = set()  # which closing ends
        self._closing: asyncio.Future[None] | None = None

    # --- life

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Somebody uses it, so that it is not idle."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self.used_at = asyncio.get_running_loop().time()

    @property
    def is_busy(self) -> bool:
        """Whether somebody uses it, or code runs or waits in it."""
        return self._users > 0 or self.runs_code

    @property
    def runs_code(self) -> bool:
        return any(not one.is_over for one in self._executions.values())

    async def close(self) -> None:
        """End what runs and waits in it, and its sandbox. Idempotent; returns when all has ended."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await finish(_settled(self._closing))

    async def _close(self) -> None:
        self.is_closed = True
        for order in self._orders:
            order.cancel()
        await asyncio.gather(*self._orders, return_exceptions=True)
        for execution in self._executions.values():
            execution.let_go()
        self._session.interrupt(at_once=True)
        await self._session.close()
        await asyncio.gather(*(one.end(lambda _: None) for one in self._executions.values()))
        if self.origin.release is not None:
            await self.origin.release()

    async def _unless_closed(self, work: Coroutine[object, object, _T]) -> _T:
        """What `work` comes to. Raises UnknownSessionError when the session is closed meanwhile."""
        if self.is_closed:
            work.close()
            raise UnknownSessionError
        order = asyncio.ensure_future(work)
        self._orders.add(order)  # pyright: ignore[reportArgumentType]
        try:
            return await order
        except asyncio.CancelledError:
            order.cancel()
            await asyncio.gather(order, return_exceptions=True)
            task = asyncio.current_task()
            if self.is_closed and not (task is not None and task.cancelling()):
                raise UnknownSessionError from None
            raise
        finally:
            self._orders.discard(order)  # pyright: ignore[reportArgumentType]

    # --- executions

    def knows(self, execution_id: str) -> bool:
        """Whether there is an execution of this id, so that it would not begin again."""
        return execution_id in self._executions

    def run(self, asked: messages.RunCode, ended: Callable[[], None] | None = None) -> RunningCode:
        """Begin an execution, or find the one that has this id already. Raises InputError.

        `ended` is called when what this begins has ended, or if it begins nothing.
        """
        ended = ended or _nothing
        try:
            execution, is_new = self._run(asked)
        except BaseException:
            ended()
            raise
        if is_new:
            execution.when_over(ended)
        else:
            ended()
        return execution

    def _run(self, asked: messages.RunCode) -> tuple[RunningCode, bool]:
        if self.is_closed:
            raise UnknownSessionError
        digest = hashlib.sha256(msgspec.json.encode(asked)).hexdigest()
        if asked.id is not None and (known := self._executions.get(asked.id)) is not None:
            if known.digest != digest:
                raise ExecutionIdUsedError(f"another execution of this session has the id {asked.id}; choose another")
            return known, False
        if asked.id in self._unwanted:
            raise ExecutionUnwantedError
        request = self._request(asked)
        open_now = [one.code_chars for one in self._executions.values() if not one.is_over]
        if len(open_now) >= EXECUTIONS_OPEN_MAX or sum(open_now) + len(asked.code) > WAITING_CODE_CHARS_MAX:
            count, size = len(open_now), sum(open_now)
            raise TooManySessionsError(f"{count} executions ({size:,} characters) run or wait here; wait for some")
        at_terminal = self.origin.is_terminal
        execution = RunningCode(
            asked.id or serialization.new_id(), digest, len(asked.code), self._ended, at_terminal=at_terminal
        )
        self._forget_oldest()
        self._executions[execution.execution_id] = execution
        execution.begin(self._execute, request, self.origin.tenant.events, asked.questions, here=at_terminal)
        if at_terminal:
            execution.beside(self.origin.tenant.tell_missing_tools(execution.remark))
        return execution, True

    def execution(self, execution_id: str) -> RunningCode:
        """An execution that is not forgotten. Raises UnknownSessionError."""
        try:
            return self._executions[execution_id]
        except KeyError:
            raise UnknownSessionError("execution") from None

    def interrupt(self, asked: messages.Interrupt) -> None:
        """End what runs now, if it is one of the executions that are named, or whatever runs."""
        if asked.executions is None:
            self._session.interrupt(at_once=asked.at_once)
            return
        for execution_id in asked.executions:
            execution = self._executions.get(execution_id)
            if execution is None or execution.is_over:
                continue
            if execution.run_id:
                self._session.interrupt(run_id=execution.run_id, at_once=asked.at_once)
            elif asked.waiting:
                execution.give_up_turn()

    async def end(self, execution_id: str) -> None:
        """End an execution that runs or waits. Raises UnknownSessionError.

        INVARIANT: one that is not known yet, because its request was overtaken, will not run.
        """
        if execution_id not in self._executions:
            self._unwanted.append(execution_id)
        await self.execution(execution_id).end(lambda run_id: self._session.interrupt(run_id=run_id))

    def abandon(self, execution: RunningCode) -> None:
        """End an execution whose client has gone."""
        ending = asyncio.ensure_future(execution.end(lambda run_id: self._session.interrupt(run_id=run_id)))
        self._orders.add(ending)  # pyright: ignore[reportArgumentType]
        ending.add_done_callback(self._orders.discard)

    async def _execute(self, request: CodeRequest) -> Envelope:
        return await self._session.execute(request)  # the one of now: a reset replaces it

    def _request(self, asked: messages.RunCode) -> CodeRequest:
        language = language_of(asked.language)
        request = CodeRequest(
            code=asked.code,  # pyright: ignore[reportArgumentType]  it takes a string
            timeout_s=asked.timeout,
            language=language,
            typescript=is_typescript(asked.language),
            ipython=language == PYTHON and self.environment == "data" and not self.origin.is_terminal,
            name=asked.name,
        )
        check_request(
            request, self.origin.runtime.settings, has_network=self.origin.wanted.network is not None, has_folders=False
        )
        return request

    def _ended(self, envelope: Envelope, seq: int) -> ResultLine | PrintedLine:
        recovery = self._session.last_recovery
        recovered = recovery[1] if recovery is not None and recovery[0] == envelope.run_id else None
        self.usage = serialization.usage_with(self.usage, envelope)
        if self.origin.is_terminal:
            return serialization.printed_line(envelope, seq)
        return serialization.result_line(envelope, seq, self.state, recovered)

    def _forget_oldest(self) -> None:
        size = 0
        for newer, execution in enumerate(reversed([one for one in self._executions.values() if one.is_over])):
            execution.trim()
            size += execution.kept_bytes
            if newer + 1 >= EXECUTIONS_KEPT_MAX or (newer and size > EXECUTIONS_KEPT_BYTES_MAX):
                del self._executions[execution.execution_id]

    # --- what it is

    @property
    def environment(self) -> str:
        """The name of its environment."""
        return self.origin.runtime.settings.environment

    @property
    def state(self) -> messages.SessionState:
        """What changes of it."""
        wanted = self.origin.wanted
        return serialization.session_state(
            self._session, checkpoints=wanted.checkpoints, network=wanted.network is not None
        )

    @property
    def engine_session(self) -> Session:
        """The session of now, whose files are this one's. Raises UnknownSessionError."""
        if self.is_closed:
            raise UnknownSessionError
        return self._session

    @property
    def run_ids(self) -> frozenset[str]:
        """Executions that may be asking something."""
        return frozenset(one.run_id for one in self._executions.values() if not one.is_over) - {""}

    def question(self, question_id: str) -> ServerQuestion:
        """An open question of a server. Raises ApprovalAnswerError."""
        for execution in self._executions.values():
            if (found := execution.questions.get(question_id)) is not None:
                return found
        raise ApprovalAnswerError("this question of a server is answered already, expired or withdrawn")

    # --- orders

    async def reset(self) -> None:
        """A new kernel; packages and rules of the network stay."""
        await self._unless_closed(self._reset())

    async def _reset(self) -> None:
        before = self._session
        rules = before.network.rules if self.origin.wanted.network is not None else None
        self._session = open_kernel(self.origin, rules, self.session_id).with_packages_of(before)
        before.interrupt(at_once=True)
        await finish(before.close())

    async def install(self, packages: tuple[str, ...]) -> InstalledPackages:
        """Install packages."""
        return await self._unless_closed(self._session.install("\n".join(packages)))

    async def checkpoint(self, name: str) -> Checkpoint:
        """Keep the state as it is."""
        return await self._unless_closed(self._session.checkpoints.take(name))

    async def undo(self, asked: messages.Undo) -> Undone:
        """Go back."""
        to = asked.to
        checkpoint = None if to is None else Checkpoint(to.number, to.name, to.execution, to.sandbox_id)
        return await self._unless_closed(self._session.checkpoints.undo(asked.n, to=checkpoint))

    async def fork(self, *, now: float) -> ServedSession:
        """Another session with the state of this one."""
        forked = await self._unless_closed(self._session.checkpoints.fork())
        return ServedSession(self.origin, forked, now=now)

    def change_network(self, asked: messages.ChangeNetwork) -> None:
        """Allow and deny domains."""
        network = self.engine_session.network
        if asked.allow:
            credential = None if asked.credential is None else header_credential(asked.credential)
            network.allow(tuple(parse_domain(text, credential) for text in asked.allow))
        if asked.deny:
            network.deny(asked.deny)


def open_kernel(origin: SessionOrigin, rules: NetworkRules | None, session_id: str | None = None) -> Session:
    """A session of the engine, with an id of its own or this one. Raises InputError, NetworkRuleError."""
    return origin.runtime.session(
        origin.grant,
        checkpoints=origin.wanted.checkpoints,
        network=rules,
        session_id=session_id,
        folders=origin.folders,
    )


def network_rules(wanted: messages.WantedNetwork | None) -> NetworkRules | None:
    """What a session asks for. Raises NetworkRuleError."""
    if wanted is None:
        return None
    rules = NetworkRules(tuple(parse_domain(text) for text in wanted.allow))
    return rules.allowing(
        parse_domain(domain, header_credential(credential)) for domain, credential in wanted.credentials.items()
    )


def header_credential(given: messages.Credential) -> HeaderCredential:
    """Raises NetworkRuleError."""
    return HeaderCredential(given.header, given.value)


def _nothing() -> None:
    """Nobody waits for the end."""


async def _settled(closing: asyncio.Future[None]) -> None:
    await closing
