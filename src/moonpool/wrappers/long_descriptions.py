"""Shortens long descriptions in a stub to what a tool does and takes, with a note on the rest.

A few tools have pages of advice that cost more than all searches that found them. In a stub, a description over
`DESCRIPTION_CHARS_MAX` keeps its beginning and its section on arguments, which schemas often do not describe; a note
says how much was left out. The raw definition (`json`) and the wrappers' docstrings have all of it.
"""

from __future__ import annotations

import re
from typing import Final

DESCRIPTION_CHARS_MAX: Final = 600
_CUT_MIN: Final = 80  # a shorter fragment of a paragraph is useless
_ON_ARGUMENTS: Final = re.compile(r"\W{0,4}(?:args|arguments|param(?:eter)?s|inputs?)\b[^\n]{0,20}:", re.IGNORECASE)
_LAST_END: Final = re.compile(r".*(?:[.!?。！？](?=\s)|\n)", re.DOTALL)


def brief(text: str) -> str:
    """`text`, which went through `quoting.prose`, possibly shortened with a note."""
    if len(text) <= DESCRIPTION_CHARS_MAX:
        return text
    paragraphs = text.split("\n\n")
    arguments = {place for place, one in enumerate(paragraphs) if place and _ON_ARGUMENTS.match(one)}
    for_arguments = min(DESCRIPTION_CHARS_MAX // 2, sum(len(paragraphs[place]) for place in arguments))
    room = {True: for_arguments, False: DESCRIPTION_CHARS_MAX - for_arguments}
    kept: list[str] = []
    for place, paragraph in enumerate(paragraphs):
        about = place in arguments
        shown = _cut(paragraph, room[about])
        room[about] = room[about] - len(shown) if shown == paragraph else 0
        kept += [shown] if shown else []
    left_out = len(text) - sum(map(len, kept))
    return "\n\n".join([*kept, f"[+{left_out} characters in json form]"])


def _cut(paragraph: str, chars_max: int) -> str:
    """The paragraph, or as many whole sentences or lines as fit."""
    if len(paragraph) <= chars_max:
        return paragraph
    if chars_max < _CUT_MIN:
        return ""
    start = paragraph[:chars_max]
    ended = _LAST_END.match(start)
    return ended[0].rstrip() if ended and ended.end() >= _CUT_MIN else start.rpartition(" ")[0].rstrip() or start
