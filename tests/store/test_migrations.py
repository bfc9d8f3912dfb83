"""A database of an older release is brought up to date, and what it holds stays, on both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from alembic import command
from sqlalchemy import text

from databases import database_address
from moonpool.features.keys.model import digest_of
from moonpool.features.keys.service import Keys
from moonpool.features.organisations.service import Organisations
from moonpool.features.sandbox_configurations.model import BUILT_IN
from moonpool.features.sandbox_configurations.service import SandboxConfigurations
from moonpool.server.http.authentication.keys import KeyAuthenticator
from moonpool.store.database import schema
from moonpool.store.database.opening import open_database, upgrade_database
from moonpool.store.secrets import SealedValues

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.store.database.addresses import DatabaseAddress

__all__ = ["database_address"]
pytestmark = pytest.mark.anyio
KEY = "sk-local-" + "a" * 43
ROWS = (
    "INSERT INTO organisation (id, name, created_at) VALUES ('acme', 'Acme', 1)",
    "INSERT INTO api_key (id, organisation_id, name, prefix, digest, scopes, created_at) "
    "VALUES ('old', 'acme', '', 'sk-local-aaaa', :digest, 'execute files', 1)",
)


async def test_a_key_made_before_there_were_configurations_works_as_before(
    database_address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    newest = command.upgrade
    with monkeypatch.context() as older:
        older.setattr(schema, "HEAD", "0008")
        older.setattr(command, "upgrade", lambda config, _: newest(config, "0008"))
        async with open_database(database_address) as database:
            for statement in ROWS:
                values: dict[str, Any] = {"digest": digest_of(KEY)} if ":digest" in statement else {}
                await database.write(lambda connection, s=statement, v=values: connection.execute(text(s), v))

    assert await upgrade_database(database_address) == "0008"
    async with open_database(database_address) as database:
        assert [one.name for one in await Organisations(database, several=True).all()] == ["Acme"]
        keys = Keys(database)
        caller = await KeyAuthenticator(keys).authenticate(KEY)
        await keys.close()
        assert caller is not None
        assert (caller.configuration_id, caller.workspace_thread, caller.variables) == (None, None, {})
        configurations = SandboxConfigurations(database, SealedValues(tmp_path / "secrets", {}, "test"))
        assert await configurations.configuration_of(caller) == BUILT_IN
