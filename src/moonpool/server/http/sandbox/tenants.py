"""What executions by one call need of an organisation; `moonpool.bootstrap.sandbox_runs` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moonpool.engine.sandbox_runs.base import RunOwner, SandboxRuns
    from moonpool.server.http.callers import HttpCaller


class SandboxTenants(Protocol):
    """Those of a service."""

    async def of(self, caller: HttpCaller, /) -> tuple[SandboxRuns, RunOwner]:
        """The executions of the caller's organisation, and on whose behalf it asks.

        Raises ServiceBusyError, InputError, DatabaseError.
        """
        ...


class WebhookKeys(Protocol):
    """Secrets that sign webhooks. Every method raises DatabaseError, SecretStoreError."""

    async def secret(self, organisation: str, /) -> str: ...
    async def renew(self, organisation: str, /) -> str: ...
