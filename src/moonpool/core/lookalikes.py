"""Names as people read them: what one looks like in plain letters, and where it begins and ends. Pure.

Covers letters of other scripts that are drawn like Latin ones, wide and other compatible forms, dashes, and characters
that are not drawn at all. Plain letters that resemble each other (`l` and `1`) stay apart: they are ordinary.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Final

from moonpool.core.hidden_characters import HIDDEN

_DRAWN_ALIKE: Final = str.maketrans({
    # Cyrillic
    "\u0430": "a", "\u0435": "e", "\u043e": "o", "\u0440": "p", "\u0441": "c", "\u0443": "y", "\u0445": "x",
    "\u0455": "s", "\u0456": "i", "\u0458": "j", "\u04bb": "h", "\u0501": "d", "\u051b": "q", "\u051d": "w",
    "\u0475": "v", "\u04cf": "l", "\u043a": "k", "\u0410": "A", "\u0412": "B", "\u0415": "E", "\u0405": "S",
    "\u0406": "I", "\u0408": "J", "\u041a": "K", "\u041c": "M", "\u041d": "H", "\u041e": "O", "\u0420": "P",
    "\u0421": "C", "\u0422": "T", "\u0423": "Y", "\u0425": "X", "\u051a": "Q", "\u051c": "W", "\u0474": "V",
    "\u050c": "G", "\u04c0": "l",
    # Greek
    "\u03bf": "o", "\u03bd": "v", "\u03b1": "a", "\u03b9": "i", "\u03ba": "k", "\u03c1": "p", "\u03c5": "u",
    "\u03c7": "x", "\u03b3": "y", "\u03f2": "c", "\u03f3": "j", "\u0391": "A", "\u0392": "B", "\u0395": "E",
    "\u0396": "Z", "\u0397": "H", "\u0399": "I", "\u039a": "K", "\u039c": "M", "\u039d": "N", "\u039f": "O",
    "\u03a1": "P", "\u03a4": "T", "\u03a5": "Y", "\u03a7": "X", "\u03f9": "C",
    # Armenian
    "\u0585": "o", "\u057d": "u", "\u0570": "h", "\u0578": "n",
    # Cherokee
    "\u13a0": "D", "\u13a1": "R", "\u13a2": "T", "\u13a9": "Y", "\u13aa": "A", "\u13ab": "J", "\u13ac": "E",
    "\u13b3": "W", "\u13b7": "M", "\u13bb": "H", "\u13c0": "G", "\u13c2": "h", "\u13c3": "Z", "\u13cf": "b",
    "\u13d2": "R", "\u13d4": "W", "\u13d5": "S", "\u13d9": "V", "\u13da": "S", "\u13de": "L", "\u13df": "C",
    "\u13e2": "P", "\u13e6": "K", "\u13f4": "B",
    # other
    "\u0131": "i", "\u0251": "a", "\u0261": "g", "\u2010": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-",
    "\u2212": "-", "\u02d7": "-", "\u2043": "-", "\u06d4": "-",
})  # fmt: skip
_NOT_DRAWN: Final = dict.fromkeys(map(ord, HIDDEN))
_NOTHING_BUT_A_NAME: Final = re.compile(r"[A-Za-z0-9_./-]+")


def looks_like(name: str) -> str:
    """The same text for names that look the same. Only for comparing."""
    plain = unicodedata.normalize("NFKC", name.translate(_NOT_DRAWN)).translate(_NOT_DRAWN).translate(_DRAWN_ALIKE)
    return " ".join(plain.split())


def shown_name(name: str) -> str:
    """A tool's name among words of ours. It is still to be made visible (`phrases.on_one_line`).

    SECURITY: a server may call its tool ``list {"path": "/tmp"} (line 3; allow)``. What is more than a name stands in
    quotes, so that it is nobody else's word.
    """
    return name if _NOTHING_BUT_A_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)
