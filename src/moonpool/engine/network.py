"""The network of a session, where it has one: its rules, a proxy for each sandbox, and the records of connections.

`moonpool.network` does the work; nothing here is reached by code or models. Rules come from an application or the
operator alone, within what the setting `network` allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from moonpool.core.audit import JournalError
from moonpool.core.audit_records import ConnectionRecord, ConnectionsRefusedRecord, time_stamp
from moonpool.network.connections import NetworkLimits, Origin, Outcome, Places
from moonpool.network.destinations import Destinations
from moonpool.network.rules import NetworkRuleError
from moonpool.redaction.redactor import Redactor
from moonpool.sandboxes.base import CA_BUNDLE_NAME, SandboxStartError
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.core.audit import Journal
    from moonpool.network.connections import Connection
    from moonpool.network.proxy import NetworkProxy
    from moonpool.network.rules import DomainRule, NetworkRules
    from moonpool.sandboxes.base import Sandbox
    from moonpool.settings import Settings

_log = logging.getLogger(__name__)

_REFUSED_RECORDS_MAX: Final = 50
"""Of one session; more are counted."""
_REFUSED_KINDS_MAX: Final = 50
_PROCESS_SHARE: Final = 8


@dataclass(frozen=True, kw_only=True)
class NetworkServices:
    """What the networks of all sessions of a process share, whatever tenant they are of."""

    destinations: Destinations = field(default_factory=Destinations)
    places: Places = field(default_factory=Places)

    @classmethod
    def of(cls, settings: Settings) -> NetworkServices:
        """For a process with these settings."""
        return cls(places=Places(connections_max=_PROCESS_SHARE * settings.network_connections_max))


class GuestNetwork:
    """The network of one session, over all sandboxes that it has."""

    def __init__(
        self,
        rules: NetworkRules,
        services: NetworkServices,
        settings: Settings,
        journal: Journal,
        *,
        principal: str,
        session_id: str,
    ) -> None:
        """Raises NetworkRuleError for rules that the operator does not allow."""
        from moonpool.network.session_network import SessionNetwork  # noqa: PLC0415  most sessions have none
        from moonpool.network.session_trust import SessionTrust  # noqa: PLC0415

        self._settings = settings
        check_bound(rules, settings)
        self._recorder = ConnectionRecorder(journal, principal, session_id)
        self._trust = SessionTrust(settings.network_ca_file, Redactor.of_values)
        self._network = SessionNetwork(
            rules=rules,
            record=self._recorder.record,
            limits=NetworkLimits(
                bytes_max=settings.network_bytes_max, connections_max=settings.network_connections_max
            ),
            destinations=services.destinations.for_session(),
            places=services.places,
            forward=self._trust.forward,
            origin=Origin(session_id=session_id),
        )
        self._served = ""  # the id of the newest sandbox
        self._trusts: tuple[str, tuple[str, ...]] = ("", ())  # that sandbox, and the hosts that its bundle is for
        self._proxies: set[NetworkProxy] = set()
        self._watching: set[asyncio.Task[None]] = set()

    @property
    def rules(self) -> NetworkRules:
        """What may be reached now."""
        return self._network.rules

    def allow(self, more: tuple[DomainRule, ...]) -> None:
        """Allow more from now on. Raises NetworkRuleError, and all is as it was."""
        rules = self.rules.allowing(more)
        check_bound(rules, self._settings)
        self._network.change(rules)

    def deny(self, patterns: tuple[str, ...]) -> None:
        """Allow these domains no longer; their connections end. Raises NetworkRuleError."""
        self._network.change(self.rules.denying(patterns))

    @contextmanager
    def executing(self, session_id: str, run_id: str) -> Generator[None]:
        """Connections that are taken meanwhile are on record with this execution; later ones with the session alone."""
        self._network.origin = Origin(session_id=session_id, execution=run_id)
        try:
            yield
        finally:
            self._network.origin = Origin(session_id=session_id)

    def refusals(self, run_id: str | None = None) -> tuple[str, ...]:
        """Why the newest connections were refused, a sentence each: all, or those of one execution."""
        return tuple(text for origin, text in self._network.refusals.copy() if run_id in {None, origin.execution})

    def is_attached(self, sandbox: Sandbox) -> bool:
        """Whether all that `attach` does is done."""
        return self._trusts == (sandbox.sandbox_id, self._credential_hosts)

    async def attach(self, sandbox: Sandbox) -> None:
        """Serve the connections of `sandbox` until it ends, and show it whom to trust. Nothing is done twice.

        Raises ConfigError, OSError, SandboxStartError.
        """
        if self._served != sandbox.sandbox_id:
            self._begin(sandbox)
        hosts = self._credential_hosts
        bundle = await asyncio.to_thread(self._trust.bundle, hosts)
        try:
            await asyncio.to_thread(sandbox.show_file, CA_BUNDLE_NAME, bundle)
        except OSError as error:
            if not sandbox.has_ended:  # its slot is removed, too
                raise SandboxStartError(step="network", reason=str(error)) from error
        self._trusts = sandbox.sandbox_id, hosts

    @property
    def _credential_hosts(self) -> tuple[str, ...]:
        return tuple(rule.pattern for rule in self.rules.domains if rule.credential is not None)

    def _begin(self, sandbox: Sandbox) -> None:
        from moonpool.network.proxy import NetworkProxy  # noqa: PLC0415

        assert sandbox.listener is not None, "a sandbox with a network has a listener"
        proxy = NetworkProxy(self._network, sandbox.listener)
        self._served = sandbox.sandbox_id
        self._proxies.add(proxy)
        watching = asyncio.ensure_future(self._end_with(sandbox, proxy))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    async def _end_with(self, sandbox: Sandbox, proxy: NetworkProxy) -> None:
        await sandbox.wait_exited()
        await finish(proxy.close())
        self._proxies.discard(proxy)

    async def close(self) -> None:
        """End all connections; return when each is on record."""
        for watching in self._watching:
            watching.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for proxy in tuple(self._proxies):
            await proxy.close()
        try:
            await self._recorder.close()
        except JournalError:
            _log.exception("the number of further refused connections could not be put on record")


def check_bound(rules: NetworkRules, settings: Settings) -> None:
    """Raise NetworkRuleError for rules that the setting `network` does not allow."""
    bound = settings.network_bound
    if bound is None:
        return
    for rule in rules.domains:
        if not rule.allow_private and not any(rule.within(one) for one in bound.domains):
            raise NetworkRuleError(f"{rule} is not among the domains that MOONPOOL_NETWORK lets a session reach")


class ConnectionRecorder:
    """Puts the connections of one session on record: each that was allowed twice, refused ones once, to a number.

    See `moonpool.core.audit.Journal.record` for what is kept when.
    """

    def __init__(self, journal: Journal, principal: str, session_id: str) -> None:
        self._journal, self._principal, self._session_id = journal, principal, session_id
        self._refused = 0
        self._counted: Counter[str] = Counter()

    async def record(self, connection: Connection) -> None:
        """Put it on record as it is now. Raises JournalError."""
        is_refused = not connection.was_allowed and connection.outcome is not Outcome.OPEN
        if is_refused and not self._may_record_refused(connection):
            return
        await self._journal.record(
            ConnectionRecord(
                run_id=f"connection_{connection.connection_id}",
                at=time_stamp(datetime.now(UTC)),
                principal=self._principal,
                session_id=connection.origin.session_id,
                execution=connection.origin.execution,
                host=connection.host,
                port=connection.port,
                address=connection.address,
                bytes_up=connection.bytes_up,
                bytes_down=connection.bytes_down,
                duration_ms=round(connection.seconds * 1000, 3),
                outcome=connection.outcome,
                credential=connection.with_credential,
                reason=connection.reason,
            )
        )

    def _may_record_refused(self, connection: Connection) -> bool:
        self._refused += 1
        if self._refused <= _REFUSED_RECORDS_MAX:
            return True
        kind = f"{connection.outcome} {connection.host}"
        self._counted[kind if kind in self._counted or len(self._counted) < _REFUSED_KINDS_MAX else "others"] += 1
        return False

    async def close(self) -> None:
        """Put the number of the others on record. Raises JournalError."""
        if self._counted:
            counted, self._counted = self._counted, Counter()
            await self._journal.record(
                ConnectionsRefusedRecord(
                    run_id=f"connections_{token_hex(16)}",
                    at=time_stamp(datetime.now(UTC)),
                    principal=self._principal,
                    session_id=self._session_id,
                    refused=dict(counted),
                )
            )
