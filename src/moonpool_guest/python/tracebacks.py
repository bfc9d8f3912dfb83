"""What stderr shows of an exception that nobody caught: the code's own frames, in causes, contexts and groups too.

Frames of the kernel, of wrappers, of the standard library and of packages are left out, and with them every cause or
context that has no other: a call of `urllib` without a network would be 25 frames in three exceptions, and the one
line of the code that a reader can change is in the first. Where nothing would be left, only the kernel's are left out.
"""

import asyncio
import os
import sys
import traceback

_GUEST_ROOT = os.path.dirname(os.path.dirname(__file__)) + "/"
_ASYNCIO_ROOT = os.path.dirname(asyncio.__file__) + "/"
_WRAPPERS = ("/wrappers/current/servers/", "/wrappers/current/mcptools/")  # actions and skills are somebody's code
_COMPILED = (".pyx", ".pxi", ".pxd")  # what Cython made of extension modules has paths that lead nowhere
_libraries: "tuple[str, ...]" = (os.path.dirname(os.__file__) + "/",)


def hide_libraries() -> None:
    """Take what `sys.path` holds now, before code can change it, for libraries."""
    global _libraries
    _libraries = tuple({*_libraries, *(f"{path}/" for path in sys.path if path.startswith("/"))})


def shown(error: BaseException) -> str:
    """The text for stderr. Raises what the exception's own texts raise."""
    whole = traceback.TracebackException.from_exception(error, compact=True)
    while whole.stack and whole.stack[0].filename.startswith((_GUEST_ROOT, _ASYNCIO_ROOT)):
        del whole.stack[0]
    _shorten(whole)
    return "".join(whole.format())


def _shorten(whole: traceback.TracebackException) -> None:
    waiting, seen = [whole], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            if one.__cause__ is not None and _is_inner(one.__cause__):
                one.__cause__ = None
            if one.__context__ is not None and _is_inner(one.__context__):
                one.__context__ = None
            own = [frame for frame in one.stack if not _is_hidden(frame.filename)]
            one.stack[:] = own or [frame for frame in one.stack if not frame.filename.startswith(_GUEST_ROOT)]
            waiting += [other for other in (one.__cause__, one.__context__) if other is not None]
            waiting += one.exceptions or []


def _is_inner(one: traceback.TracebackException) -> bool:
    """Whether it was raised and caught within libraries. One without frames was never raised: the code made it."""
    return bool(one.stack) and not one.exceptions and all(_is_hidden(frame.filename) for frame in one.stack)


def _is_hidden(filename: str) -> bool:
    return filename.startswith((_GUEST_ROOT, *_WRAPPERS, *_libraries, "<frozen ")) or filename.endswith(_COMPILED)
