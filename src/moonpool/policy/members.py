"""Names of members: which of them a server may take for one another.

Not every program compares names letter by letter: readers of JSON in Go and C# ignore case, protobuf takes `filePath`
for `file_path`, others fold compatibility forms of Unicode. Where two such names stand in one object, nobody here knows
which of them the server reads.
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
"""A condition does not look into an object with more members: each of its names has to be compared."""
_NAME_CHARS_SHOWN: Final = 60
_SCALARS: Final = frozenset([str, int, float, bool, type(None)])


def folded(name: str) -> str:
    """The same text for all names that a server may take for one.

    Without case, compatibility forms, `_`, `-`, blanks, what nobody sees, and what stands behind a NUL.
    """
    if name.isascii() and name.isprintable():
        plain = name.lower()
    else:
        plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name.partition("\0")[0]).casefold())
        plain = "".join(filter(is_seen, plain))
    return plain.replace("_", "").replace("-", "").replace(" ", "") or plain


def names_for(name: str, members: JsonObject) -> list[str]:
    """The names in `members` that a server may take for `name`, itself included. Raises UnreadableError."""
    if len(members) > MEMBERS_MAX:
        raise UnreadableError(f"an object on the way there has more than {MEMBERS_MAX} members")
    wanted = folded(name)
    return [one for one in members if one == name or folded(one) == wanted]


def look_alikes(document: JsonValue) -> str:
    """Two members of one object, anywhere in `document`, that a server may take for one; nothing if there are none.

    Does not recurse. A large document takes as long as encoding it, so look on a thread.
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
    """Both names in words."""
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
