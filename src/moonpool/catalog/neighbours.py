"""Words that stand near each other, beside the hand-written groups of `moonpool.catalog.synonyms`.

`neighbours.txt` has a line per word: the word, then up to eight words that a small language model puts nearest, best
first. It is text that ships with us, not a model: nothing is computed at a search but a look-up. The words are those
that one-line summaries of published packages use; `bench.retrieval.neighbours` makes the lines and says how.

A neighbour counts only where the catalog holds it, so a question that says "film" finds what is written about movies,
and a word that no tool uses costs nothing.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

from moonpool.catalog.text import stem

NEIGHBOUR_WEIGHT: Final = 0.2  # half of what a hand-written synonym is worth
NEIGHBOURS_MAX: Final = 4  # of one word, so many that the catalog holds
QUESTION_TERMS_MAX: Final = 12  # longer questions say enough in their own words (decision 0035)

# Read when the module is: a search on an event loop must not wait for a file.
_LINES: Final = resources.files(__package__ or "").joinpath("neighbours.txt").read_text(encoding="utf-8")


def neighbours(term: str) -> tuple[str, ...]:
    """Search terms near `term`, best first."""
    return tuple(stem(word) for word in _by_term().get(term, "").split())


@cache
def _by_term() -> dict[str, str]:
    """Lines by the term of their word; cut into words where somebody asks."""
    return {stem(word): rest for word, _, rest in (line.partition(" ") for line in _LINES.splitlines()) if rest}
