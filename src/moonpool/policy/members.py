"""Names of members that a server may take for the same.

Not every program compares names exactly: JSON parsers in Go and C# ignore case, protobuf takes `filePath` for
`file_path`, others fold compatibility forms of Unicode. If one object has two such names, we cannot know which one the
server reads.
"""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Final

from moonpool.core.hidden_characters import is_seen
from moonpool.policy.findings import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.core.json import JsonObject, JsonValue

MEMBERS_MAX: Final = 1000
"""A condition does not search an object with more members, because each name must be compared."""
_NAME_CHARS_SHOWN: Final = 60
_SCALARS: Final = frozenset([str, int, float, bool, type(None)])


def folded(name: str) -> str:
    """The same string for all names that a server may take for the same.

    Without case, compatibility forms, `_`, `-`, blanks, invisible characters, and everything after a NUL.
    """
    if name.isascii() and name.isprintable():
        plain = name.lower()
    else:
        plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name.partition("\0")[0]).casefold())
        plain = "".join(filter(is_seen, plain))
    return plain.replace("_", "").replace("-", "").replace(" ", "") or plain


def names_for(name: str, members: JsonObject) -> list[str]:
    """The names in `members` that a server may take for `name`, including itself. Raises UnreadableError."""
    if len(members) > MEMBERS_MAX:
        raise UnreadableError(f"an object on the way there has more than {MEMBERS_MAX} members")
    wanted = folded(name)
    return [one for one in members if one == name or folded(one) == wanted]


def look_alikes(document: JsonValue) -> str:
    """Two members of one object, anywhere in `document`, that a server may take for the same; empty if there are none.

    Does not recurse. A large document takes as long as encoding it, so call this in a thread.
    """
    waiting = [document]
    seen: set[tuple[str, ...]] = set()  # rows of a table have the same names
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if len(value) > 1 and (names := tuple(value)) not in seen:
                if pair := _pair(names):
                    return beside(*pair)
                seen.add(names)
            value = value.values()
        elif not isinstance(value, list):
            continue
        waiting += [child for child in value if type(child) not in _SCALARS]
    return ""


def beside(one: str, other: str) -> str:
    """Both names as text."""
    return f"the arguments have {quoted(other)} beside {quoted(one)}, which a server may take for one"


def quoted(name: str) -> str:
    """`name` for a sentence."""
    return json.dumps(name if len(name) <= _NAME_CHARS_SHOWN else f"{name[:_NAME_CHARS_SHOWN]}…", ensure_ascii=False)


def _pair(names: Iterable[str]) -> tuple[str, str] | None:
    seen: dict[str, str] = {}
    for name in names:
        if (first := seen.setdefault(folded(name), name)) is not name:
            return first, name
    return None
