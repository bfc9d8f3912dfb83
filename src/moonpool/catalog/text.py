"""From text to search terms: split identifiers, drop stop words, cut endings.

Both sides of a search pass through `terms`, so the rules need not be linguistically correct, only the same for tools
and questions. The gain of each rule is measured in docs/decisions/0005-catalog.md: stop words most (tool texts are
short, so "to" and "my" would count as rare words), then the stemmer.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_STOP_WORDS: Final = """
    a an the of to in on at by for from with and or is are be been was were this that these those it its as i me my we
    our you your he she they them can could would should will shall do does did please help want need like so if then
    than also into about what which who whom how when where why there here any some all each not no just use using used
    via per etc let us s t re ve ll d m am up out over such may might must have has had
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())

_WORD: Final = re.compile("[^\\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_HUMP: Final = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])"
)
_FIRST_UNSPACED: Final = "\u3040"  # scripts from here on are written without spaces
_SENTENCE_END: Final = re.compile(r"(?<=[.!?;])\s+|\n+")
_SENTENCE_WORDS_MIN: Final = 3
SENTENCES_MAX: Final = 12
_WORD_CHARS_MAX: Final = 64  # longer runs are keys, hashes or base64: nobody searches for them


def terms(text: str) -> list[str]:
    """Return the search terms of `text`, in order and with repetitions."""
    found: list[str] = []
    for word in _WORD.findall(text):
        if len(word) <= _WORD_CHARS_MAX:
            found.extend(_word_terms(word))
    return found


@lru_cache(maxsize=32_768)
def _word_terms(word: str) -> tuple[str, ...]:
    """Terms of one run of letters and digits: its parts and, if there are several, the run itself.

    Chinese, Japanese and Korean runs become overlapping pairs of characters.
    """
    if word[0] >= _FIRST_UNSPACED:
        return tuple(word[i : i + 2] for i in range(max(1, len(word) - 1)))
    parts = [part.lower() for part in _HUMP.split(word) if part]
    if len(parts) > 1:
        parts.append(word.lower())
    return tuple(stem(part) for part in parts if part not in STOP_WORDS and (len(part) > 1 or part.isdigit()))


def sentences(text: str) -> list[str]:
    """The first sentences of a text with several; empty for one sentence. Fragments of up to two words are left out."""
    found = [part for part in _SENTENCE_END.split(text) if len(part.split()) >= _SENTENCE_WORDS_MIN]
    return found[:SENTENCES_MAX] if len(found) > 1 else []


def stem(word: str) -> str:
    """Cut English endings so that "repositories", "listing" and "stored" match "repository", "list" and "store"."""
    word = _without_plural(word)
    if word.endswith("ing") and len(word) > 5:
        word = word[:-3]
    elif word.endswith("ed") and len(word) > 4:
        word = word[:-2]
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("es") and len(word) > 4 and word[-3] in "sxz":
        return word[:-2]
    if word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
