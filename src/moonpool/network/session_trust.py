"""What clients in the sandboxes of one session trust, and the session's half of connections with a credential."""

from __future__ import annotations

import asyncio
import threading
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from moonpool.network.roots import trusted_roots

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from moonpool.network.connections import Outcome
    from moonpool.network.credential_requests import MakeRedaction, Redaction
    from moonpool.network.session_ca import SessionAuthority
    from moonpool.network.session_network import ForwardSpec

_REDACTIONS_MAX: Final = 64
"""Credentials whose redaction is kept; it takes 20 ms and more to make."""


class SessionTrust:
    """Makes the session's certificate authority once a domain has a credential."""

    def __init__(self, extra_roots: Path | None, redaction: MakeRedaction) -> None:
        self._extra_roots = extra_roots

        @lru_cache(maxsize=_REDACTIONS_MAX)
        def of(values: tuple[tuple[str, str], ...]) -> Redaction:
            return redaction(dict(values))

        # SECURITY: code opens connections as it likes; making a redaction for each would take all time of the host
        self._redaction: MakeRedaction = lambda values: of(tuple(values.items()))
        self._lock = threading.Lock()

    def bundle(self, hosts: Collection[str]) -> bytes:
        """PEM of all that clients in the sandbox trust; `hosts` are those with a credential. Takes milliseconds; for a
        thread. Raises ConfigError.
        """
        with self._lock:
            if not hosts:
                return self._roots
            self._authority.cover(hosts)
            return self._authority.bundle()

    async def forward(self, spec: ForwardSpec) -> Outcome:
        """See `moonpool.network.session_network.Forward`."""
        from moonpool.network.tls_termination import forward_with_credential  # noqa: PLC0415  see `_authority`

        authority = await asyncio.to_thread(self._covering, spec.host)
        return await forward_with_credential(spec, authority, self._redaction)

    def _covering(self, host: str) -> SessionAuthority:
        """The authority, also for a host that was allowed a moment ago."""
        with self._lock:
            self._authority.cover([host])
            return self._authority

    @cached_property
    def _roots(self) -> bytes:
        return trusted_roots(self._extra_roots)

    @cached_property
    def _authority(self) -> SessionAuthority:
        # Imported here because `cryptography` takes as long to import as a sandbox to start; few sessions need it.
        from moonpool.network.session_ca import SessionAuthority  # noqa: PLC0415

        return SessionAuthority([], roots=self._roots)
