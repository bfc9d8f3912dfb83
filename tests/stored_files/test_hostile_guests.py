"""Code that has replaced the agent in PID 1 and lies about its files: nothing is kept, and its sandbox is ended."""

# ruff: noqa: E501  code of sandboxes, one line each

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stored_files.executions import in_data, new_volume

if TYPE_CHECKING:
    from stored_files.executions import Executions
    from stored_files.memory_trees import MemoryTree

pytestmark = [pytest.mark.anyio, pytest.mark.req("F-022")]

REPLACE = """
import json
from moonpool_guest import files
from moonpool_guest.files import trees
from moonpool_guest.files.exchange import Exchange
honest = trees.changes
def changes(exchange):
    def listed(text, *contents):
        rows = text if isinstance(text, bytes) else json.dumps(text).encode()
        exchange.say('file_opened', size=0)
        exchange.send_all([len(rows).to_bytes(4, 'big') + rows, *contents])
    def put(*rows, removed=(), contents=()):
        listed({'put': rows, 'removed': list(removed)}, *contents)
        exchange.done(entries=len(rows))
    PLAY
trees.changes = changes
"""
LIES = {
    "a path with ..": "put(['file', '../up', 420, 1, 0])",
    "a path that leads out below": "put(['file', 'a/../../up', 420, 1, 0])",
    "an absolute path": "put(['file', '/etc/passwd', 420, 1, 0])",
    "a path that is not plain": "put(['file', 'a//b', 420, 1, 0])",
    "an empty path": "put(['file', '', 420, 1, 0])",
    "a path with NUL": r"put(['file', 'a\0b', 420, 1, 0])",
    "half a surrogate pair": r"""listed(b'{"put":[["file","\\ud800",420,1,0]],"removed":[]}')""",
    "a name that is too long": "put(['file', 'a' * 300, 420, 1, 0])",
    "too deep": "put(['file', 'a/' * 80 + 'b', 420, 1, 0])",
    "one path twice": "put(['file', 'a', 420, 1, 0], ['folder', 'a', 420, 1, 0])",
    "a file below a file": "put(['file', 'a', 420, 1, 0], ['file', 'a/b', 420, 1, 0])",
    "a file below a link": "put(['link', 'a', 420, 1, '/etc'], ['file', 'a/passwd', 420, 1, 0])",
    "a device": "put(['device', 'a', 420, 1, 0])",
    "a setuid bit": "put(['file', 'a', 0o4755, 1, 0])",
    "a size below nothing": "put(['file', 'a', 420, 1, -1])",
    "a size without content": "put(['file', 'a', 420, 1, 100])",
    "more bytes than it listed": "put(['file', 'a', 420, 1, 1], contents=[b'xyz'])",
    "fewer bytes than it listed": "put(['file', 'a', 420, 1, 3], contents=[b'x'])",
    "more than the disk holds": "put(['file', 'a', 420, 1, 1 << 33])",
    "many that are more than the disk holds": "put(*(['file', str(n), 420, 1, 1 << 20] for n in range(1000)))",
    "too many entries": "put(*(['file', str(n), 420, 1, 0] for n in range(20_001)))",
    "more folders than there may be": "put(*(['file', '/'.join([str(n)] + ['x'] * 60), 420, 1, 0] for n in range(400)))",
    "a link without a target": "put(['link', 'a', 420, 1, 5])",
    "a file with a target": "put(['file', 'a', 420, 1, '/etc'])",
    "a target with NUL": r"put(['link', 'a', 420, 1, 'x\0'])",
    "a time that is none": "put(['file', 'a', 420, -1, 0])",
    "removing what was never there": "put(removed=['other'])",
    "removing twice": "put(removed=['f', 'f'])",
    "pieces of contents of its own": "put(['file', 'a', 420, 1, 5, '', [['t1/1/0', 0, 5]]], contents=[b'12345'], removed=['zz'])",
    "no list": "listed(b'[]')\nexchange.done(entries=0)",
    "no JSON": "listed(b'{{')\nexchange.done(entries=0)",
    "no UTF-8": "listed(bytes([255]) * 9)\nexchange.done(entries=0)",
    "a bomb of brackets": "listed(b'[' * 100_000)\nexchange.done(entries=0)",
    "an endless list": "exchange.say('file_opened', size=0)\nexchange.send_all([bytes([255, 255, 255, 255])] + [bytes(65536)] * 1000)",
    "a list that is cut": "exchange.say('file_opened', size=0)\nexchange.send_all([bytes([0, 0, 1, 0]), b'x'])\nexchange.done(entries=0)",
    "nothing at all": "exchange.say('file_opened', size=0)\nexchange.done(entries=0)",
    "an end without a beginning": "exchange.done(entries=0)",
    "bytes without a beginning": "exchange.say('file_data', b'x')",
    "another order": "channel_order = exchange._order\nexchange._order += 1\nexchange.say('file_opened', size=0)",
    "another digest": "exchange.say('file_opened', size=0)\nexchange.send_all([b'xxxx'])\nexchange.say('file_done', size=4, sha256='00' * 32, entries=0)",
    "its own end": "import os; os._exit(0)",
    "an error of its own": "raise ValueError('mine')",
}  # fmt: skip


@pytest.mark.claim("C-STO-4", "C-STO-7")
@pytest.mark.parametrize("lie", LIES)
async def test_a_guest_that_lies_changes_nothing(executions: Executions, thread: MemoryTree, lie: str) -> None:
    await thread.put({"f": b"before"})
    play = LIES[lie].replace("\n", "\n    ")
    envelope = await executions.execute(REPLACE.replace("PLAY", play) + "\nopen('f', 'w').write('after')", thread)
    assert envelope.error is not None
    assert envelope.error.type == "StorageError"
    assert thread.files == {"f": b"before"}
    assert thread.snapshot.version == 1


@pytest.mark.claim("C-STO-4")
async def test_what_a_guest_says_of_one_tree_changes_no_other(executions: Executions, thread: MemoryTree) -> None:
    volume = new_volume()
    await volume.put({"f": b"of the volume"})
    play = "put(['file', 'data/vol/f', 420, 1, 0], ['link', 'l', 420, 1, '/data/vol'], removed=[])"
    envelope = await executions.execute(REPLACE.replace("PLAY", play), thread, in_data(volume, writable=False))
    assert envelope.error is None
    assert volume.files == {"f": b"of the volume"}
    assert volume.snapshot.version == 1
    assert set(thread.files) == {"data/vol/f"}


@pytest.mark.claim("C-STO-4")
async def test_the_reserved_folder_is_the_hosts(executions: Executions, thread: MemoryTree) -> None:
    await thread.put({".moonpool/packages.json": b"{}", "f": b"1"})
    code = "import os; print(os.listdir()); os.mkdir('.moonpool'); open('.moonpool/packages.json', 'w').write('mine')"
    envelope = await executions.execute(code, thread)
    assert envelope.error is None
    assert ".moonpool" not in envelope.extras["stdout"]  # pyright: ignore[reportOperatorIssue]
    assert thread.content(".moonpool/packages.json") == b"{}"
