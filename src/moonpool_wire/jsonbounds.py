"""Bounds on JSON text from an untrusted peer, checked on the bytes before a decoder builds objects from them.

SECURITY: a decoder recurses on depth and allocates per container and value; they are counted first. Strings are
skipped, so brackets and commas inside them do not count. The fast path is one pass of `bytes.count` for each.
INVARIANT: linear in the text, whatever it is, and in pieces: what is made of a text of nothing but quotes must not be
larger than what is counted. Counting stops at a bracket that closes nothing, as a decoder does.
"""

from collections.abc import Iterator

from moonpool_wire.limits import CONTAINERS_MAX, DEPTH_MAX

_PIECE_BYTES = 256 * 1024
_OPENS = bytes(byte in b"[{" for byte in range(256))
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))


def exceeded_bound(
    text: bytes,
    *,
    depth_max: int = DEPTH_MAX,
    containers_max: int = CONTAINERS_MAX,
    values_max: int | None = None,
) -> str | None:
    """Say which bound `text` exceeds, or None. Text that is not JSON may pass; the decoder refuses it."""
    many = values_max is not None and text.count(b",") >= values_max
    if not many and text.count(b"[") + text.count(b"{") <= depth_max:
        return None
    brackets = bytearray()
    values = containers = 0
    for structure in _structure(text):
        values += structure.count(b",")
        if values_max is not None and values >= values_max:
            return f"more than {values_max} values"
        containers += structure.count(b"[") + structure.count(b"{")
        if containers > containers_max:
            return f"more than {containers_max} objects and arrays"
        brackets += structure.replace(b",", b"")
    depth = 0
    for opens in brackets.translate(_OPENS):
        depth += 1 if opens else -1
        if depth > depth_max:
            return f"more than {depth_max} levels of nesting"
        if depth < 0:
            break
    return None


def _structure(text: bytes) -> Iterator[bytes]:
    """The brackets and commas outside of strings, piece by piece."""
    at = inside = 0
    while at < len(text):
        piece = text[at : at + _PIECE_BYTES]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 and len(piece) > 1:
            piece = piece[:-1]  # no escape is cut in two
        at += len(piece)
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[inside::2]).translate(None, _NOT_STRUCTURE)
        inside = (inside + len(parts) - 1) % 2
