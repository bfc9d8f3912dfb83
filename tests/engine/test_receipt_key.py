"""The key for receipts and the journal are out of a sandbox's reach, whatever isolates it."""

from __future__ import annotations

import anyio.to_thread
import pytest

from apps import DATA, open_app, run
from moonpool.features.receipts.signing_keys import SigningKeys
from moonpool.store.paths import journal_path, keys_dir

CODE = """
import os
def attempt(path):
    try:
        open(path, "rb").read()
    except OSError as error:
        return type(error).__name__
    return "read"
names = {{name for _, folders, files in os.walk("/") for name in (*folders, *files)}}
result = [attempt(path) for path in {paths!r}] + sorted(names & {{"receipts.pem", "audit.sqlite3"}})
"""


@pytest.mark.anyio
@pytest.mark.parametrize("backend", ["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def test_no_sandbox_reads_the_key_or_finds_it(backend: str) -> None:
    await anyio.to_thread.run_sync(SigningKeys(keys_dir(DATA)).current)
    paths = [str(keys_dir(DATA) / "receipts.pem"), str(journal_path(DATA)), "/proc/1/root" + str(keys_dir(DATA))]
    async with open_app(backend=backend) as app:
        envelope = await run(app, CODE.format(paths=paths))
    assert envelope.data == ["FileNotFoundError"] * 3
