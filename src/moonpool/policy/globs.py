"""Globs: `*` is anything, `?` one character, `[...]` one of a set; case-sensitive, and `/` is not special.

A glob becomes an expression whose stars do not backtrack, so that matching takes linear time per star.
"""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache


def glob_matches(glob: str, name: str) -> bool:
    return glob == "*" or _compiled(glob).match(name) is not None


def literal_glob(name: str) -> str:
    """A glob that matches exactly `name`."""
    return re.sub(r"([*?\[])", r"[\1]", name)


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))
