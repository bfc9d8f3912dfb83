"""Sessions with a network in real sandboxes, in front of an internet of a test."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from apps import open_app
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.network import NetworkServices
from moonpool.network.destinations import Destinations
from moonpool.network.rules import NetworkRules, parse_domain
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from network.sites import authority

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.bootstrap import Tenant
    from moonpool.engine.sessions import Session
    from network.stand_ins import Internet


@asynccontextmanager
async def open_session(
    internet: Internet, *domains: str, settings: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[tuple[Session, Tenant]]:
    async with internet.running(), open_app(**(settings or {})) as app:
        app.runtime.network_services = NetworkServices(
            destinations=Destinations(resolve=internet.resolve, dial=internet.dial)
        )
        rules = NetworkRules(tuple(map(parse_domain, domains)))
        session = app.runtime.session(app.caller_grant, network=rules, **options)
        try:
            yield session, app
        finally:
            await session.close()


async def ran(session: Session, code: str, **options: Any) -> Any:
    envelope = await session.execute(CodeRequest(code=code.encode(), **options))
    assert envelope.error is None, envelope.error
    return envelope.data


def connections_of(app: Tenant, session: Session) -> list[dict[str, Any]]:
    rows = [row.to_json() for row in read_rows(journal_path(app.data), tail=100)]
    return [row for row in rows if row["kind"] == "connection" and row["session_id"] == session.session_id]


def trusting(folder: Path) -> tuple[dict[str, Any], ssl.SSLContext]:
    """Settings by which sessions trust a new authority, and a server's context under it."""
    ca, context = authority(folder, "www.example.com")
    (folder / "ca.pem").write_bytes(ca)
    return {"network_ca_file": folder / "ca.pem"}, context
