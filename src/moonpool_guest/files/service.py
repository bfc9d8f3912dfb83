"""From an order to its answer: exactly one, whatever happens meanwhile.

What one file needs is imported with the kernel, so that a session whose code holds every descriptor gets an answer too.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from moonpool_guest.channel import ChannelGoneError
from moonpool_guest.files import transfers
from moonpool_guest.files.exchange import Exchange
from moonpool_guest.files.refusals import refusal_of


def carry_out(exchange: Exchange) -> None:
    """Do what the order says, then answer. Raises ChannelGoneError only."""
    try:
        with _standard_imports():
            action = _action(exchange.head["t"])
        action(exchange)
    except ChannelGoneError:
        raise
    except BaseException as error:  # a signal handler of the code may raise anything, anywhere
        refusal = refusal_of(error)
        exchange.say("file_failed", code=refusal.code, message=refusal.message)


def _action(kind: str) -> "Callable[[Exchange], None]":
    """The function for an order. What needs much to be imported is imported when it is needed."""
    if kind == "file_unpack":
        from moonpool_guest.files.unpacking import unpack

        return unpack
    if kind == "file_archive":
        from moonpool_guest.files.packing import archive

        return archive
    if kind in {"tree_fill", "tree_changes"}:
        from moonpool_guest.files import trees

        return trees.fill if kind == "tree_fill" else trees.changes
    if kind in {"file_list", "file_delete"}:
        from moonpool_guest.files import removal, walking

        return walking.list_folder if kind == "file_list" else removal.delete
    return {"file_put": transfers.put, "file_get": transfers.get, "file_mkdir": transfers.make_folder}[kind]


@contextmanager
def _standard_imports() -> "Generator[None]":
    """Import from the standard library, also when the code has a `tarfile.py` of its own in its folder."""
    kept = list(sys.path)
    sys.path[:] = [path for path in kept if path not in {"", "/workspace", "/wrappers/current"}]
    try:
        yield
    finally:
        sys.path[:] = kept
