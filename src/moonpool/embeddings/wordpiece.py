"""Splits text into the pieces of the vocabulary: lower case, no accents, longest known piece first (WordPiece).

Sixty lines of our own, because the package for it brings a compiled library for a few thousand calls.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

CLS: Final = 101
SEP: Final = 102
UNKNOWN: Final = 100
PIECES_MAX: Final = 128  # the length that the network was trained with
_TEXT_CHARS_MAX: Final = 2_000
_WORD_CHARS_MAX: Final = 100
_UNSPACED: Final = re.compile("([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")


class WordPiece:
    """A vocabulary: one piece per line, numbered by line; `##` begins a piece that continues a word."""

    def __init__(self, vocabulary: str) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary.splitlines())}

    def __len__(self) -> int:
        return len(self._numbers)

    def pieces(self, text: str) -> list[int]:
        """Numbers of the pieces of `text`, without the marks at both ends, at most PIECES_MAX - 2."""
        found: list[int] = []
        for word in _words(text[:_TEXT_CHARS_MAX]):
            found.extend(self._cut(word))
            if len(found) >= PIECES_MAX - 2:
                break
        return found[: PIECES_MAX - 2]

    def _cut(self, word: str) -> list[int]:
        if len(word) > _WORD_CHARS_MAX:
            return [UNKNOWN]
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                number = self._numbers.get(word[start:end] if start == 0 else f"##{word[start:end]}")
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return [UNKNOWN]
        return found


def _words(text: str) -> Iterator[str]:
    spaced = _UNSPACED.sub(r" \1 ", text)
    plain = "".join(
        character
        for character in unicodedata.normalize("NFD", spaced.lower())
        if unicodedata.category(character) != "Mn"
    )
    for chunk in plain.split():
        word = ""
        for character in chunk:
            if _is_punctuation(character):
                if word:
                    yield word
                yield character
                word = ""
            elif not unicodedata.category(character).startswith("C"):
                word += character
        if word:
            yield word


def _is_punctuation(character: str) -> bool:
    return (character.isascii() and not character.isalnum()) or unicodedata.category(character).startswith("P")
