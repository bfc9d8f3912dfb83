"""The names under which tools, or prompts, of several servers stand side by side. Pure.

A name is the server's own, after the server's `prefix` if one is configured. Where two servers have the same name, each
of the two gets its server's id before it: a server that takes a neighbour's name gets none of its calls. Characters
that MCP does not want become `_`, and names that are then still the same or too long end in a digest.

INVARIANT: names are different, and say the same for the same tools in any order.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from moonpool.core.json import digest_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Key: TypeAlias = "tuple[str, str]"
"""A server's id, and its own name for a thing."""
NAME_CHARS_MAX: Final = 128
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]")
_DIGEST_CHARS: Final = 16
_ROUNDS: Final = 4


def public_names(keys: Iterable[Key], prefixes: Mapping[str, str]) -> dict[str, Key]:
    """The things by the names that clients use, sorted by name."""
    names = {key: _fitting(_joined(prefixes.get(key[0], ""), key[1]), key) for key in keys}
    servers = Counter(name for name, _ in {(name, server_id) for (server_id, _), name in names.items()})
    for key, name in names.items():
        if servers[name] > 1:
            names[key] = _fitting(_joined(*key), key)
    marked = set[Key]()
    for turn in range(_ROUNDS + 1):
        shared = Counter(names.values())
        alike = [key for key, name in names.items() if shared[name] > 1 and key not in marked]
        if not alike:
            break
        # SECURITY: a server may name one tool as another will be called with its digest, and so on and on.
        for key in alike if turn < _ROUNDS else [one for one in names if one not in marked]:
            names[key] = _with_digest(names[key], key)
            marked.add(key)
    return dict(sorted((name, key) for key, name in names.items()))


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}_{name}" if prefix else name


def _fitting(name: str, key: Key) -> str:
    plain = _UNFIT.sub("_", name)
    return plain if len(plain) <= NAME_CHARS_MAX else _with_digest(plain, key)


def _with_digest(name: str, key: Key) -> str:
    digest = digest_json(list(key)).removeprefix("sha256:")[:_DIGEST_CHARS]
    return f"{name[: NAME_CHARS_MAX - _DIGEST_CHARS - 1]}_{digest}"
