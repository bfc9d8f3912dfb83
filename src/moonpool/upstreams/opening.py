"""All upstreams of one configuration: opened together, found by server id, closed together."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, cast

import anyio

from moonpool.upstreams.supervisor import SupervisedUpstream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence

    from moonpool.configuration.servers import McpConfig, ServerConfig
    from moonpool.oauth.credentials import Credentials
    from moonpool.upstreams.base import Change, Upstream
    from moonpool.upstreams.process import StopTimes
    from moonpool.upstreams.server_requests import ServerRequestHandlers

CLOSE_S: Final = 10.0
"""How long an orderly shutdown may take; after it what is left is cancelled (processes are still killed)."""


class Upstreams:
    """The upstreams of one configuration, by server id."""

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        self._upstreams = dict(upstreams)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._upstreams)

    def get(self, server_id: str) -> Upstream | None:
        return self._upstreams.get(server_id)

    def protocol_versions(self) -> dict[str, str]:
        """The protocol version of each server that was reached; pass it as `known_versions` to skip the probes."""
        return {
            name: version
            for name, upstream in self._upstreams.items()
            if (version := upstream.protocol_version) is not None
        }


@asynccontextmanager
async def open_upstreams(  # noqa: PLR0913  what every upstream needs, and a clock for tests
    config: McpConfig,
    *,
    environ: Mapping[str, str],
    known_versions: Mapping[str, str] | None = None,
    on_listing_changed: Callable[[str], None] | None = None,
    on_change: Callable[[Change], None] | None = None,
    stop_times: StopTimes | None = None,
    handlers: ServerRequestHandlers | Callable[[ServerConfig], ServerRequestHandlers] | None = None,
    credentials: Mapping[str, Credentials] | None = None,
    clock: Callable[[], float] = anyio.current_time,
) -> AsyncGenerator[Upstreams]:
    """Enter: nothing is started yet. Exit, on any path: no connection and no process is left.

    `on_change` hears of every change, `on_listing_changed` of lists only; both are called in the event loop and must
    return at once. `environ` gives a child its few inherited variables. `handlers` answer what servers ask; without one
    the request is refused. `credentials` are by server id; their creator closes them after the upstreams.
    """
    _silence_the_sdk()

    def tell(change: Change) -> None:
        if on_listing_changed is not None and change.kind != "resource":
            on_listing_changed(change.server_id)
        if on_change is not None:
            on_change(change)

    with _ungrouped():
        async with anyio.create_task_group() as tasks:
            supervised = {
                server.server_id: SupervisedUpstream(
                    server,
                    tasks,
                    environ=environ,
                    known_version=(known_versions or {}).get(server.server_id),
                    on_change=tell,
                    stop_times=stop_times,
                    handlers=handlers(server) if callable(handlers) else handlers,
                    credentials=(credentials or {}).get(server.server_id),
                    clock=clock,
                )
                for server in config.servers
            }
            try:
                yield Upstreams(supervised)
            finally:
                with anyio.move_on_after(CLOSE_S, shield=True):
                    await _close(reversed(supervised.values()))
                tasks.cancel_scope.cancel()


def _silence_the_sdk() -> None:
    """SECURITY: its client logs what servers send, as it came: credentials that a server repeats, and what a terminal
    acts on. What matters of it arrives as an error. A level that somebody chose stays.
    """
    log = logging.getLogger("mcp.client")
    if log.level == logging.NOTSET:
        log.setLevel(logging.CRITICAL)


async def _close(upstreams: Iterable[SupervisedUpstream]) -> None:
    """Ask all to stop, in this order, then wait for all: ten slow servers take as long as one."""
    closing = list(upstreams)
    for upstream in closing:
        upstream.close_nowait()
    for upstream in closing:
        await upstream.wait_closed()


@contextmanager
def _ungrouped() -> Generator[None]:
    """A lone error leaves as itself, with its cause: owner tasks never raise, so there is only the body's."""
    try:
        yield
    except BaseExceptionGroup as group:
        lone = _lone(group)
        raise lone from lone.__cause__


def _lone(exc: BaseException) -> BaseException:
    inner = cast("Sequence[BaseException]", getattr(exc, "exceptions", ()))
    return _lone(inner[0]) if len(inner) == 1 else exc
