"""What every execution of a process shares, and the one way in which code is run.

`Runtime.run` runs one piece of code in a sandbox of its own; `Runtime.session` keeps the sandbox, and with it variables
and files, between executions (`engine.sessions`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.engine.runtime_services import RuntimeServices
from moonpool.engine.sessions import Session
from moonpool.sandboxes.shielding import end_within

if TYPE_CHECKING:
    from moonpool.core.envelope import Envelope
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.stored_files.run_storage import RunStorage
    from moonpool.network.rules import NetworkRules
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.sandboxes.host_folders import HostFolders
    from moonpool.sandboxes.pool_statistics import PoolStatistics


@dataclass(kw_only=True)
class Runtime(RuntimeServices):
    """What every execution of a process shares. Made by `moonpool.bootstrap`."""

    _closing: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"], init=False)

    async def run(
        self,
        request: CodeRequest,
        caller_grant: CallerGrant,
        *,
        network: NetworkRules | None = None,
        storage: RunStorage | None = None,
    ) -> Envelope:
        """Run code in a sandbox of its own and return its envelope; `network` and `storage` as for `session`.

        Raises InputError for code that cannot be run, NetworkRuleError.
        """
        session = self.session(caller_grant, final=True, network=network, storage=storage)
        try:
            return await session.execute(request)
        finally:
            self.close_soon(session)

    def session(
        self,
        caller_grant: CallerGrant,
        session_id: str | None = None,
        *,
        final: bool = False,
        checkpoints: bool = False,
        network: NetworkRules | None = None,
        folders: HostFolders | None = None,
        storage: RunStorage | None = None,
    ) -> Session:
        """A session; its sandbox opens at the first execution. Close it. `final`: it runs one execution only.
        `checkpoints`: it can be undone and forked. `network`: what its code may reach, see `Session.network`; None:
        as `Runtime.network` says. SECURITY: rules come from the operator or an application, never from code or a model.
        `folders` of the host are in its sandbox; None: those of `Runtime.folders`.
        `storage`: trees that are brought in before its one execution, and committed after it; only with `final`.

        Raises InputError for a `session_id` that cannot be put on record, and for `checkpoints` with `folders`;
        NetworkRuleError.
        """
        session = Session(
            self,
            caller_grant,
            session_id=session_id,
            final=final,
            checkpoints=checkpoints,
            network=self.network if network is None else network,
            folders=self.folders if folders is None else folders,
            storage=storage,
        )
        self.look_after(session)
        return session

    def statistics(self) -> PoolStatistics:
        """How the pool is doing, and the zygotes behind it."""
        return self.pool.statistics()

    def close_soon(self, session: Session) -> None:
        """Discard a sandbox without letting the caller wait for its end."""
        closing = asyncio.ensure_future(session.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End every execution and transfer and close every session; return when all that ran has its end on record.

        What does not end within `CLOSE_S` (`moonpool.sandboxes.shielding`) is left, and the log says so.
        """
        self._closed.set()
        await end_within("an execution or a session", self._end_all())

    async def _end_all(self) -> None:
        for transfer in self._transfers:
            transfer.reschedule(asyncio.get_running_loop().time())
        for session in self._sessions:
            session.interrupt(at_once=True)
        sessions = [asyncio.ensure_future(session.close()) for session in tuple(self._sessions)]
        while left := [one for one in (*sessions, *self._executing, *self._closing) if not one.done()]:
            await asyncio.wait(left)
        await asyncio.gather(*sessions)
