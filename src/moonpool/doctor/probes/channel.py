"""Attacks on the channel: each breaks the protocol in one way, after which the host must discard the sandbox."""

from __future__ import annotations

from typing import Final

from moonpool.doctor.probes.record import AnyProbe, Expected, Probe

_FRAMES = """
def frame(kind, payload, length=None):
    return struct.pack(">I", kind << 24 | (len(payload) if length is None else length)) + payload
def message(head, body=b""):
    return frame(1, struct.pack(">H", len(head)) + head + body)
def say(data):
    while data:
        data = data[os.write(3, data):]
import json
os.set_blocking(3, True)
"""
_WAIT = "\ntime.sleep(20)\n"


def _violation(name: str, title: str, program: str, *, quick: bool = False) -> Probe:
    return Probe(
        probe_id=f"chan-{name}",
        claim="C-CHAN-1",
        title=title,
        program=f"{_FRAMES}{program}{_WAIT}",
        expected=Expected.DISCARDED,
        fresh=True,
        quick=quick,
    )


CHANNEL: Final[tuple[AnyProbe, ...]] = (
    _violation("junk", "write random bytes", "say(os.urandom(4096) + b'\\xff' * 4096)", quick=True),
    _violation("huge-length", "announce a frame of 16 MiB", "say(frame(1, b'', 0xffffff))", quick=True),
    _violation("unknown-kind", "send a frame of no known kind", "say(frame(200, b'x'))"),
    _violation("short-frame", "send frames too short for their kind", "say(frame(1, b'')); say(frame(4, b'x'))"),
    _violation(
        "head-too-long", "claim a head longer than its frame", "say(frame(1, struct.pack('>H', 60000) + b'{}'))"
    ),
    _violation("not-json", "send a head that is not JSON", "say(message(b'not json'))"),
    _violation("not-utf8", "send a head that is not UTF-8", 'say(message(b\'{"t":"display","mime":"\\xff\\xfe"}\'))'),
    _violation("deep", "send a head nested 8,000 deep", "say(message(b'[' * 8000 + b']' * 8000))"),
    _violation(
        "unknown-message", "send a message of no known type", 'say(message(b\'{"t":"grant_all"}\'))', quick=True
    ),
    _violation("host-message", "send a message that only the host may send", 'say(message(b\'{"t":"execute"}\'))'),
    _violation(
        "bad-id",
        "use request ids out of range",
        "say(message(json.dumps({'t': 'tool_call', 'id': 2**60, 'server': 's', 'tool': 't'}).encode(), b'{}'))",
    ),
    _violation(
        "wrong-types",
        "describe a server instead of naming one",
        "head = {'t': 'tool_call', 'id': 1, 'server': {'command': 'sh'}, 'tool': 't'}\n"
        "say(message(json.dumps(head).encode(), b'{}'))",
    ),
    _violation(
        "blob-without-open", "send bytes of a blob that is not open", "say(frame(3, struct.pack('>I', 7) + b'x'))"
    ),
    _violation(
        "blob-digest",
        "send a blob that does not match its digest",
        'head = b\'{"t":"display","mime":"x"}\'\n'
        "say(frame(2, struct.pack('>IQ', 1, 65537) + bytes(32) + head))\n"
        "say(frame(3, struct.pack('>I', 1) + bytes(40000)) + frame(3, struct.pack('>I', 1) + bytes(25537)))",
    ),
    _violation(
        "blob-twice",
        "open two blobs at a time",
        "for number in (1, 2): say(frame(2, struct.pack('>IQ', number, 70000) + bytes(32) + b'{}'))",
    ),
    _violation(
        "forged-credit",
        "give credit for a blob that was never sent",
        "say(frame(4, struct.pack('>II', 99, 1)))",
        quick=True,
    ),
    _violation(
        "output", "send output as a message, past the pipes", 'say(message(b\'{"t":"output","stream":1}\', b"x"))'
    ),
    _violation("closed", "close the channel and live on", "os.close(3)"),
)
