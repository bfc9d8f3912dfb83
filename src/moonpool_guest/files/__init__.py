"""Files in and out: what the host may ask of a sandbox between executions.

The host never resolves a path inside a sandbox. It sends orders on the channel, and PID 1 carries them out here, with
the rights, the quota and the view of the code itself. One order at a time, on the main thread; each ends in exactly one
answer, and what it has begun is undone when it fails.

    exchange    an order's conversation: pieces in, pieces out, the end
    places      which paths there are, and opening them without following links
    transfers   one file in, one file out
    walking     what is below a folder, bounded; listings
    packing     a folder as a tar stream
    unpacking   a tar or zip as a folder, whole or not at all
    removal     delete
    trees       a stored tree in, what changed of it out
    processes   what ends before that

SECURITY: this runs in hostile ground. Code may have replaced any of it, so nothing here protects the host: it protects
an honest session from what its own files do (links, fifos, bombs). The host checks sizes, digests and names again.
"""

from typing import Any

from moonpool_guest.channel import GuestChannel
from moonpool_guest.files.exchange import Exchange
from moonpool_guest.files.service import carry_out

_LATE = frozenset({"file_piece", "file_commit", "file_next", "file_drop"})  # of an order that is over
_BEGIN = frozenset({
    "file_put", "file_unpack", "file_get", "file_archive", "file_list", "file_delete", "file_mkdir", "tree_fill",
    "tree_changes",
})  # fmt: skip
ORDERS = _BEGIN | _LATE


def serve(channel: GuestChannel, head: "dict[str, Any]", _body: bytes) -> None:
    """Carry one order out. Raises ChannelGoneError only."""
    if head["t"] not in _LATE:
        carry_out(Exchange(channel, head))
