"""Commands whose journal is in PostgreSQL: what they write is there, and they read it from there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from anyio.to_thread import run_sync

from apps import fresh_data
from cli.console import moonpool, run_code
from moonpool.settings import Settings
from moonpool.store.journals import open_journal_place
from store.audit_records import intent, start
from store.journals import reader_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.mark.slow
async def test_commands_write_and_read_the_journal_that_the_url_names(database: str, tmp_path: Path) -> None:
    data = fresh_data(tmp_path / "data")
    more = {"MOONPOOL_DATA_DIR": str(data), "MOONPOOL_DATABASE_URL": database}
    async with (
        open_journal_place(Settings.load({}, database_url=database), data, "acme") as place,
        place.open(lazily=False) as journal,
    ):
        await journal.record(start("run_acme"))
        await journal.record(intent(1, "run_acme"))

    def use() -> None:
        run_id = run_code(tmp_path, "result = 6 * 7", **more).envelope["run_id"]
        verified = moonpool(tmp_path, "audit", "verify", **more)
        assert (verified.exit_code, b"2 records, chain whole" in verified.stdout) == (0, True), verified
        receipt = json.loads(moonpool(tmp_path, "receipt", "show", "last", **more).stdout)
        assert (receipt["execution"]["run_id"], receipt["state"]) == (run_id, "ended")
        (tmp_path / "receipt.json").write_text(json.dumps(receipt), encoding="utf-8")
        checked = moonpool(tmp_path, "receipt", "verify", "receipt.json", **more)
        assert b"journal" in checked.stdout, checked
        shown = moonpool(tmp_path, "audit", "show", "--org", "acme", "--json", **more).stdout.splitlines()
        assert [json.loads(line).get("outcome") for line in shown] == [None, "unknown"]
        odd = moonpool(tmp_path, "audit", "show", "--org", "../acme", **more)
        assert (odd.exit_code, "organisation" in odd.stderr) == (2, True), odd

    await run_sync(use)
    assert (await run_sync(reader_of(database).newest_run)) is not None
    assert list(tmp_path.glob("**/audit.sqlite3")) == []
