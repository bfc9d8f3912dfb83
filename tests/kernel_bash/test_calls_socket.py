"""Whoever connects to PID 1's socket: what it says is bounded, and it holds nobody else up for longer than it lives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernel_bash.probing import BashProbe

pytestmark = pytest.mark.anyio

CLIENT = """
import json, socket, struct
def connected():
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(10)
    one.connect("\\0moonpool")
    return one
def frame(head, body, *, head_bytes=None, body_bytes=None):
    head = head if isinstance(head, bytes) else json.dumps(head).encode()
    sizes = struct.pack(">II", head_bytes or len(head), body_bytes or len(body))
    return sizes + head + body
def heard(one):
    data = b""
    try:
        while part := one.recv(65536): data += part
    except OSError: pass
    return data
"""
GOOD = '{"server": "s", "tool": "t"}'


async def speaks(bash: BashProbe, code: str) -> str:
    """Run `code` as a client of the socket, from Bash, and return what it prints."""
    run = await bash.run(f"\"$(readlink /proc/1/exe)\" -I -S - <<'CLIENT'\n{CLIENT}\n{code}\nCLIENT")
    assert run.stderr == ""
    return run.stdout


async def still_works(bash: BashProbe) -> bool:
    run = await bash.run("moonpool call s.t")
    return run.stdout.startswith('{"server":"s"')


async def test_a_call_is_answered(bash: BashProbe) -> None:
    said = await speaks(bash, f"one = connected(); one.sendall(frame({GOOD}, b'{{}}')); print(heard(one)[4:].decode())")
    assert json.loads(said)["raw"]["structuredContent"] == {"server": "s", "tool": "t", "arguments": {}}


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param("b'GET / HTTP/1.1\\r\\n\\r\\n'", id="another protocol"),
        pytest.param("frame(b'x' * 20000, b'')", id="a head that is too long"),
        pytest.param("frame(b'not json', b'{}')", id="a head that is no JSON"),
        pytest.param("frame(b'[' * 16000, b'{}')", id="a head that is too deep"),
        pytest.param("frame([1, 2], b'{}')", id="a head that is no object"),
        pytest.param("frame({'server': 's'}, b'{}')", id="no tool"),
        pytest.param("b'\\xff' * 8", id="sizes beyond all limits"),
    ],
)
async def test_what_is_not_the_protocol_is_hung_up_on(bash: BashProbe, sent: str) -> None:
    assert await speaks(bash, f"one = connected(); one.sendall({sent}); print(len(heard(one)))") == "0\n"
    assert await still_works(bash)


async def test_arguments_that_are_too_large_are_refused_unread(bash: BashProbe) -> None:
    said = await speaks(
        bash,
        f"one = connected(); one.sendall(frame({GOOD}, b'', body_bytes=17_000_000)); print(heard(one)[4:].decode())",
    )
    assert json.loads(said)["error"]["type"] == "ValidationError"
    assert await still_works(bash)


async def test_names_that_are_too_long_get_a_typed_answer(bash: BashProbe) -> None:
    said = await speaks(
        bash,
        "one = connected(); one.sendall(frame({'server': 's', 'tool': 't' * 2000}, b'{}'))\n"
        "print(heard(one)[4:].decode())",
    )
    assert json.loads(said)["error"]["type"] == "UnknownTool"


async def test_half_frames_and_floods_of_connections_hold_nobody_up_for_long(bash: BashProbe) -> None:
    said = await speaks(
        bash,
        f"whole = frame({GOOD}, b'x' * 60_000)\n"
        "kept = []\n"
        "for turn in range(3):\n"
        "    for n in range(140):\n"
        "        try:\n"
        "            one = connected()\n"
        "            one.sendall(whole[: n * 30])\n"
        "            kept.append(one)\n"
        "        except OSError: pass\n"
        "    kept.clear()\n"
        "print('left')",
    )
    assert said == "left\n"
    assert await still_works(bash)


async def test_whoever_never_reads_its_answer_holds_nobody_up(bash: BashProbe) -> None:
    big = {"ok": True, "data_from": "structured", "raw": {"structuredContent": "x" * 4_000_000}}
    bash.always_answer(big)
    said = await speaks(
        bash,
        f"deaf = connected(); deaf.sendall(frame({GOOD}, b'{{}}')); one = connected()\n"
        f"one.sendall(frame({GOOD}, b'{{}}')); print(len(heard(one)) > 4_000_000)",
    )
    assert said == "True\n"


async def test_a_taken_name_does_not_stop_bash(bash: BashProbe) -> None:
    await bash.python("import socket\ntaken = socket.socket(socket.AF_UNIX)\ntaken.bind('\\0moonpool')")
    run = await bash.run("echo runs; moonpool call s.t; echo $?")
    assert run.stdout == "runs\n3\n"
    await bash.python("taken.close()")
    assert await still_works(bash)
