"""What a person sees of a call's arguments: all of them, but for secrets.

Two kinds of secrets, told apart because code writes the arguments. A known value (a configured secret, a token) is
blanked: what is hidden is that value and nothing else. What only looks like a secret may be anything. Of it only runs
of characters that a token has are hidden, each in its middle, with its ends and the number of what is hidden to be
seen, under the words `NOT_ALL`; and all of it can be read (`View.whole`).

SECURITY: no blank, quote, bracket or other sign that gives arguments or a shell command their structure is ever hidden
because of its looks: else code begins a password and lets `', role='admin'` or `; curl ...` follow in
it, and a person approves what they never saw.
INVARIANT: `View.cut` is true whenever `View.text` is not all of the arguments.

How it is written: `readable_json`. Questions and lines of plans made of it: `shown_calls`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from moonpool.core.json import canonical_json
from moonpool.core.phrases import printable_json
from moonpool.features.approvals.model import WHOLE_CHARS_MAX
from moonpool.pipeline.readable_json import ARGUMENTS_CHARS_MAX, NOT_ALL, all_but_hidden, in_one_line, readable_json
from moonpool.redaction.redactor import Tally
from moonpool.redaction.stream_search import TOO_MANY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.core.json import JsonObject
    from moonpool.redaction.redactor import Redactor

_RUN_MIN: Final = 6
_RUN: Final = re.compile(rf"[A-Za-z0-9+_-]{{{_RUN_MIN},}}")
_END_CHARS_MAX: Final = 8
_KEY_RUN_MIN: Final = 16  # what is shorter in a private key are the words around it


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Arguments as a person sees them."""

    text: str  # of at most ARGUMENTS_CHARS_MAX characters
    whole: str = ""  # all of it but for known secrets; empty when `text` is that, or when it is too long
    cut: bool = False  # `text` is not all of it


def view_of(arguments: JsonObject, redactor: Redactor, *, encoded: bytes | None = None) -> View:
    """The arguments in a question. `encoded` is their JSON where the caller has it already."""
    tally = Tally()
    known = redactor.known.json_object(arguments, tally, encoded=encoded)
    text = readable_json(known, ARGUMENTS_CHARS_MAX, partial(looks_secret, redactor))
    if TOO_MANY in tally:  # SECURITY: then the rest of some text was withheld, whatever it was
        return View(text=text if text.startswith(NOT_ALL) else f"{NOT_ALL}\n{text}", cut=True)
    if not text.startswith(NOT_ALL):
        return View(text=text)
    return View(text=text, whole=all_but_hidden(known, WHOLE_CHARS_MAX), cut=True)


def line_of(arguments: JsonObject, redactor: Redactor, *, encoded: bytes) -> tuple[str, str]:
    """The arguments in a plan, on one line; and all of them where that is not. Both empty: they cannot be shown."""
    tally = Tally()
    known = redactor.known.json_object(arguments, tally, encoded=encoded)
    if TOO_MANY in tally:
        return "", ""
    whole = printable_json(canonical_json(known).decode())
    shown = all_but_hidden(known, WHOLE_CHARS_MAX, partial(looks_secret, redactor))
    if not shown:
        return "", ""
    return (in_one_line(shown), whole) if shown.startswith(NOT_ALL) else (whole, "")


def looks_secret(redactor: Redactor, text: str, member: str) -> Sequence[tuple[int, int]]:
    """Which characters of `text`, the member `member` of an object, are hidden because of what they look like."""
    found = redactor.by_looks(text, member) if len(text) >= _RUN_MIN else ()
    if not found:
        return ()
    ends = list(accumulate(len(char.encode("utf-8", "surrogatepass")) for char in text))
    hidden: list[tuple[int, int]] = []
    for start, end, name in sorted(found):
        for run in _RUN.finditer(text, bisect_right(ends, start), bisect_right(ends, end)):
            kept = min(_END_CHARS_MAX, len(run[0]) // 4)
            first = max(run.start() + kept, hidden[-1][1] if hidden else 0)
            word = name == "private_key" and len(run[0]) < _KEY_RUN_MIN
            if first < run.end() - kept and not word:
                hidden.append((first, run.end() - kept))
    return hidden
