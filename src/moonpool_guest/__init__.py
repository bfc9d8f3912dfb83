"""Everything that runs inside a sandbox. Standard library and `moonpool_wire` only; started with `python -s -P -S`.

`zygote` forks sandboxes, `confine` locks a fresh child in, `python.kernel` runs code, `toolcalls` reaches the broker.

SECURITY: user code runs in the same process and can change anything here. Nothing in this package is trusted by the
host; the boundary is the Linux kernel's.
"""

import sys as _sys

_ssl = _sys.modules.get("ssl", _sys)  # `_sys` stands for: was not imported
_sys.modules["ssl"] = None  # pyright: ignore[reportArgumentType]  asyncio does without; it would cost 5 MB in each fork

import asyncio as asyncio  # noqa: E402  before any module of ours imports it

if _ssl is _sys:
    del _sys.modules["ssl"]
else:
    _sys.modules["ssl"] = _ssl
