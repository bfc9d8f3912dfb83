"""Serves `/metrics` beside a command. The address is bound first, so that one in use stops the start."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from moonpool.server.http.figures import Metrics
    from moonpool.server.http.loopback import Listener


@contextmanager
def bound_listener(address: str, *, what: str) -> Generator[Listener]:
    """Yield a bound socket. Raises ConfigError, ListenError."""
    from moonpool.net.loopback_addresses import loopback_address
    from moonpool.server.http.loopback import Listener

    listener = Listener(loopback_address(address, what=what))
    try:
        yield listener
    finally:
        listener.close()


@asynccontextmanager
async def metrics_served(listener: Listener, metrics: Metrics, say: Callable[[str], None]) -> AsyncGenerator[None]:
    """Serve inside the block and print the address."""
    from moonpool.server.http.loopback import serving
    from moonpool.server.http.metrics import PATH, MetricsApp

    async with serving(listener, MetricsApp(metrics, hosts=listener.address.names)):
        say(f"metrics at http://{listener.address.netloc}{PATH}")
        yield
