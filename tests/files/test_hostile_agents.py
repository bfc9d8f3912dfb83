"""Code that has replaced the agent in PID 1 and lies: the host believes nothing, keeps nothing, and does not wait."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import anyio
import pytest

from files.moving import Workbench, member, source, tar_of
from moonpool.engine.files.errors import (
    DigestMismatchError,
    FileTransferError,
    TransferTimeoutError,
    refusal,
)
from moonpool.engine.files.local_files import landing

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

REPLACE = """
import json
from moonpool_guest import files
def serve(channel, head, body):
    def say(kind, body=b'', **members):
        channel.send({'t': kind, 'order': head['order'], **members}, body)
    if head['t'] in ('file_piece', 'file_next', 'file_commit', 'file_drop') and not AGAIN:
        return
    PLAY
files.serve = serve
"""
WRONG = "0" * 64


async def corrupt(bench: Workbench, play: str, *, again: bool = False) -> None:
    """Let the agent answer every opening order, or every message, as `play` says."""
    await bench.run(REPLACE.replace("AGAIN", str(again)).replace("PLAY", play.replace("\n", "\n    ")))


LIES = {
    "an end without a beginning": "say('file_done', size=0, sha256='')",
    "bytes without a beginning": "say('file_data', b'x')",
    "more than was asked for": "say('file_opened')\nfor _ in range(100): say('file_data', b'x')",
    "a flood": "say('file_opened')\nfor _ in range(100_000): say('file_data', bytes(65536))",
    "an empty piece": "say('file_opened')\nsay('file_data', b'')",
    "a piece that is too large": "say('file_opened')\nsay('file_data', bytes(300_000))",
    "two beginnings": "say('file_opened')\nsay('file_opened')",
    "an acknowledgement": "say('file_opened')\nsay('file_taken')",
    "another order": "channel.send({'t': 'file_opened', 'order': head['order'] + 1})",
    "an order that is over": "channel.send({'t': 'file_failed', 'order': head['order'] - 1, 'code': 'x'})",
    "a listing": "say('file_opened')\nsay('file_entries', b'[]')",
    "no form": "say('file_done', size=-1)",
    "a digest that is none": "say('file_done', size=0, sha256='zz')",
    "its own end": "import os; os._exit(0)",
}


@pytest.mark.claim("C-CHAN-1")
async def test_a_second_end_of_one_order_answers_no_other(bench: Workbench) -> None:
    """It ends the sandbox if it comes with the first, and means nothing when the order is over already."""
    await corrupt(bench, "say('file_failed', code='missing')\nsay('file_failed', code='missing')")
    with anyio.fail_after(20):
        for _ in range(3):
            with pytest.raises(FileTransferError):
                await bench.with_limits(answer_s=2).get("out", _ignore)
    assert await bench.run("result = 1") == 1


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.claim("C-CHAN-1")
async def test_an_agent_that_breaks_the_protocol_is_ended(bench: Workbench, lie: str) -> None:
    await corrupt(bench, LIES[lie])
    sandbox = bench.session._kernel.sandbox
    assert sandbox is not None
    with anyio.fail_after(20), pytest.raises(FileTransferError):
        await bench.with_limits(answer_s=2).get("out", _ignore)
    assert await bench.run("result = 'files' in globals()") is False


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(f"size=3, sha256='{WRONG}'", id="digest"),
        pytest.param("size=4, sha256=__import__('hashlib').sha256(b'abc').hexdigest()", id="size"),
        pytest.param("", id="nothing"),
    ],
)
async def test_a_wrong_digest_or_size_publishes_nothing(bench: Workbench, tmp_path: Path, end: str) -> None:
    await corrupt(bench, f"say('file_opened', size=3)\nsay('file_data', b'abc')\nsay('file_done', {end})")
    with anyio.fail_after(20), pytest.raises(DigestMismatchError):
        async with landing(tmp_path / "out", force=False) as file:
            await bench.files.get("out", file.write)
    assert list(tmp_path.iterdir()) == []


async def test_a_file_said_to_be_huge_is_bounded_by_what_is_asked_for(bench: Workbench) -> None:
    """The agent claims 200 GB and sends as long as it is asked to."""
    play = "for _ in range(head.get('pieces', 0)): say('file_data', bytes(65536))"
    await corrupt(bench, f"if head['t'] == 'file_get': say('file_opened', size=200 << 30)\n{play}", again=True)
    passed = 0

    async def count(piece: bytes) -> None:
        nonlocal passed
        passed += len(piece)

    with anyio.fail_after(30), pytest.raises(FileTransferError, match="sent more than"):
        await bench.files.get("out", count)
    assert passed <= bench.app.settings.file_bytes_max


@pytest.mark.parametrize("play", ["pass", "say('file_opened')", "while True: pass"])
async def test_an_agent_that_never_answers_is_ended(bench: Workbench, play: str) -> None:
    await corrupt(bench, play)
    with anyio.fail_after(20), pytest.raises(TransferTimeoutError, match="did not answer"):
        await bench.with_limits(answer_s=0.3).get("out", _ignore)
    assert await bench.run("result = 1") == 1


async def test_an_upload_nobody_takes_is_ended(bench: Workbench) -> None:
    await corrupt(bench, "pass")
    with anyio.fail_after(20), pytest.raises(TransferTimeoutError):
        await bench.with_limits(answer_s=0.3).put("in", source(bytes(4 << 20)))


async def test_an_upload_that_is_said_to_be_something_else_is_void(bench: Workbench) -> None:
    play = f"""if head['t'] == 'file_piece': say('file_taken')
if head['t'] == 'file_commit': say('file_done', size=3, sha256='{WRONG}')"""
    await corrupt(bench, play, again=True)
    with anyio.fail_after(20), pytest.raises(DigestMismatchError):
        await bench.put("in", b"abc")


async def test_an_upload_that_is_taken_more_often_than_sent_is_void(bench: Workbench) -> None:
    await corrupt(bench, "if head['t'] == 'file_piece': say('file_taken'); say('file_taken')", again=True)
    with anyio.fail_after(20), pytest.raises(FileTransferError, match="broke the protocol"):
        await bench.put("in", bytes(1 << 20))


LISTINGS = {
    "no list": "b'{}'",
    "no JSON": "b'\\xff'",
    "deep": "b'[' * 5000",
    "many": "json.dumps([{'path': 'x', 'kind': 'file'}] * 10_500).encode()",
    "large": "json.dumps([{'path': 'x' * 4000, 'kind': 'file'}] * 1000).encode()",
    "an unknown kind": "json.dumps([{'path': 'x', 'kind': 'door'}]).encode()",
    "a negative size": "json.dumps([{'path': 'x', 'kind': 'file', 'size': -1}]).encode()",
    "a long path": "json.dumps([{'path': 'x' * 20_000, 'kind': 'file'}]).encode()",
    "half a character": 'b\'[{"path":"\\\\ud800","kind":"file"}]\'',
}


@pytest.mark.parametrize("name", LISTINGS)
async def test_a_listing_that_is_none_ends_the_sandbox(bench: Workbench, name: str) -> None:
    await corrupt(bench, f"say('file_entries', {LISTINGS[name]})")
    with anyio.fail_after(20), pytest.raises(FileTransferError, match="broke the protocol"):
        await bench.files.list()


async def test_an_agent_cannot_speak_to_the_terminal_through_an_error(bench: Workbench) -> None:
    await corrupt(bench, "say('file_failed', code='unheard', message='\\x1b[2J\\u202eevil' + 'x' * 8000)")
    with pytest.raises(FileTransferError) as caught:
        await bench.get("out")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_unknown_codes_are_plain_failures() -> None:
    assert type(refusal("p", "__class__", "")) is FileTransferError


async def test_file_messages_during_an_execution_are_ignored(bench: Workbench) -> None:
    code = """
        import sys
        frame, held = sys._getframe(), []
        while frame is not None:
            held += [getattr(one, '_channel', None) for one in frame.f_locals.values()]
            frame = frame.f_back
        channel = next(one for one in held if type(one).__name__ == 'GuestChannel')
        for kind in ('file_taken', 'file_opened', 'file_entries', 'file_done'):
            channel.send({'t': kind, 'order': 1}, b'')
        channel.send({'t': 'file_data', 'order': 1}, bytes(60_000))
        result = 'went on'
        """
    assert await bench.run(code) == "went on"
    await bench.put("a", b"x")
    assert await bench.get("a") == b"x"


async def test_code_that_holds_every_descriptor_gets_an_answer_and_keeps_its_session(bench: Workbench) -> None:
    code = "import os\nx = 1\nheld = []\ntry:\n    while True: held.append(os.dup(0))\nexcept OSError: pass"
    await bench.run(code)
    with anyio.fail_after(20), pytest.raises(FileTransferError):
        await bench.put("a", b"x")
    await bench.run("[os.close(fd) for fd in held]")
    await bench.put("a", b"x")
    assert await bench.run("result = x") == 1


async def test_signal_handlers_of_the_code_do_not_lose_the_answer(bench: Workbench) -> None:
    await bench.run("""
        import signal
        def disturb(*_): raise RuntimeError('in between')
        signal.signal(signal.SIGALRM, disturb)
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    """)
    ended: set[str] = set()
    for _ in range(10):
        try:
            await bench.put("a", os.urandom(2 << 20), replace=True)
            ended.add("done")
        except FileTransferError as error:
            ended.add(type(error).__name__)
    assert ended <= {"done", "FileTransferError"}


async def test_a_tar_made_by_an_agent_reaches_the_caller_as_bytes(bench: Workbench) -> None:
    tar = tar_of(member("../../evil", b"x"))
    play = f"""import hashlib
say('file_opened'); say('file_data', {tar[:2048]!r})
say('file_done', size=2048, sha256=hashlib.sha256({tar[:2048]!r}).hexdigest())"""
    await corrupt(bench, play)
    receipt, got = await bench.archive()
    assert io.BytesIO(got).read(10) == b"../../evil"
    assert receipt.size == 2048


async def _ignore(_: bytes) -> None:
    pass
