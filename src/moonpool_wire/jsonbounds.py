"""Bounds on JSON text from an untrusted peer, checked on the bytes before a decoder builds objects from them.

SECURITY: a decoder recurses on depth and allocates per container; both are counted first. Strings are skipped, so
brackets and commas inside them do not count. The fast path is one pass of `bytes.count` for each.
INVARIANT: linear in the text, whatever it is. A string without an end is skipped to the end of the text (else each of
its escaped quotes would start a new attempt), and counting stops at a bracket that closes nothing, as a decoder does.
"""

import re

from moonpool_wire.limits import CONTAINERS_MAX, DEPTH_MAX

_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


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
    structure = _STRINGS.sub(b"", text)
    if many and structure.count(b",") >= (values_max or 0):
        return f"more than {values_max} values"
    brackets = structure.translate(None, _NOT_BRACKETS)
    if brackets.count(b"[") + brackets.count(b"{") > containers_max:
        return f"more than {containers_max} objects and arrays"
    depth = deepest = 0
    for bracket in brackets:
        depth += 1 if bracket in b"[{" else -1
        if depth < 0:
            break
        deepest = max(deepest, depth)
    return f"more than {depth_max} levels of nesting" if deepest > depth_max else None
