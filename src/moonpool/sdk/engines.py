"""What sessions of one process share: an engine for each kind of settings, and a tenant on it.

Sessions with the same settings and servers share servers' processes, zygotes and ready sandboxes; each has its own
sandbox. What is shared is opened by the first and closed with the last.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from moonpool.bootstrap import open_engine, open_tenant
from moonpool.bootstrap.sharing import sharing
from moonpool.bootstrap.stores import open_default_queue, opened_approvals
from moonpool.configuration.policies import policy_in_force
from moonpool.configuration.server_config import McpConfig, resolved_key
from moonpool.core.errors import InputError
from moonpool.core.json import digest_json
from moonpool.features.approvals.events import EventApprover
from moonpool.features.approvals.files import KeptGrants
from moonpool.terminal.approver import TerminalApprover
from moonpool.terminal.device import Terminal, open_terminal, user_name

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Hashable, Mapping
    from contextlib import AbstractAsyncContextManager

    from moonpool.bootstrap import Engine, Tenant
    from moonpool.pipeline.approval import Approver
    from moonpool.policy import Policy
    from moonpool.sdk.options import SessionOptions
    from moonpool.settings import Settings

_IDS: Final = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class OpenTenant:
    """A tenant of this process, and who is asked in it."""

    tenant: Tenant
    approver: Approver
    events: EventApprover  # questions of one execution each
    key: Hashable  # by which sessions share it


@asynccontextmanager
async def tenant_for(options: SessionOptions) -> AsyncGenerator[OpenTenant]:
    """The tenant of a session. Raises what reading its options and opening engine and tenant raise."""
    environ = dict(os.environ)
    settings = await asyncio.to_thread(options.settings, environ)
    config = await asyncio.to_thread(options.config, environ)
    if options.secrets:
        config = replace(config or McpConfig(source="the session"), other_secrets=options.secrets)
    how = options.approve if isinstance(options.approve, str) else "events"
    policy = await asyncio.to_thread(policy_in_force, settings, config)  # as its file is now
    if more := options.layers():
        policy = replace(policy, layers=(*policy.layers, *more))
    key = (settings, policy.digest, _digest(config), how, _values(environ), options.apart)
    async with sharing(key, lambda: _open(settings, policy, config, how, environ, key)) as opened:
        yield opened


def same_tenant(opened: OpenTenant) -> AbstractAsyncContextManager[OpenTenant]:
    """The tenant that another session has open, which must not end before this is entered."""

    def make() -> AbstractAsyncContextManager[OpenTenant]:
        raise AssertionError("it is open")

    return sharing(opened.key, make)


def shared_engine(settings: Settings, environ: dict[str, str], key: Hashable) -> AbstractAsyncContextManager[Engine]:
    """The engine for a tenant with this key. Without root a backend has one uid, which serves one tenant: then each has
    an engine of its own.
    """
    shared = (settings, _values(environ), None if os.geteuid() == 0 else key)
    return sharing(shared, lambda: open_engine(settings, environ=environ))


@asynccontextmanager
async def _open(
    settings: Settings, policy: Policy, config: McpConfig | None, how: str, environ: dict[str, str], key: Hashable
) -> AsyncGenerator[OpenTenant]:
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(shared_engine(settings, environ, key))
        events = EventApprover()
        approver: Approver = events
        if how == "queue":
            queue = open_default_queue(settings, engine.data, lambda _: None, environ)
            approver = await stack.enter_async_context(queue)
        elif how == "ask":
            approver = _terminal(stack, engine)
        tenant = await stack.enter_async_context(
            open_tenant(
                engine,
                f"sdk-{next(_IDS)}",
                config=config,
                approver=approver,
                policy=policy,
                data=engine.data,
                eagerly=True,
            )
        )
        yield OpenTenant(tenant=tenant, approver=approver, events=events, key=key)


def _terminal(stack: AsyncExitStack, engine: Engine) -> Approver:
    fd = open_terminal()
    if fd is None:
        raise InputError('approve="ask" needs a terminal; give a function, or "queue" for `moonpool approvals`')
    stack.callback(os.close, fd)
    grants = KeptGrants(lambda: opened_approvals(engine.settings, engine.data))
    return TerminalApprover(Terminal(fd, nullcontext), name=f"terminal:{user_name()}", grants=grants)


def _digest(config: McpConfig | None) -> str:
    """Which servers these are, with their values and rules."""
    return (
        ""
        if config is None
        else digest_json([repr(config), repr(sorted(config.other_secrets)), *map(resolved_key, config.servers)])
    )


def _values(environ: Mapping[str, str]) -> Hashable:
    return tuple(sorted(environ.items()))
