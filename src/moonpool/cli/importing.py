"""Imports without the garbage collector.

Modules are many objects and hardly any garbage; looking for it again and again takes a fifth of the time of importing
the application.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def no_collection() -> Generator[None]:
    """Collect nothing meanwhile; later collections pass over what there is by then."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
