"""Figures about Moonpool itself from the audit journal: read once, or followed as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.features.usage.measures import Measures, Tally, measure

if TYPE_CHECKING:
    from moonpool.core.audit import JournalReader

RECORDS: Final = 100_000
"""How many of the newest records are read unless somebody wants more."""


def read_measures(journal: JournalReader, *, records: int = RECORDS) -> Measures:
    """Figures of the newest `records` of the journal, none before there is one; blocking. Raises JournalError."""
    if journal.identity() is None:
        return measure([])
    return measure(row.to_json() for row in journal.rows(tail=records))


class FollowedJournal:
    """Reads what is new at each turn: the newest `records` at first, then only what was added.

    Blocking; used by one thread at a time. Counts and sums only ever grow, as collectors expect.
    """

    def __init__(self, journal: JournalReader, *, records: int = RECORDS) -> None:
        self._journal, self._records = journal, records
        self._tally = Tally()
        self._identity: object = None
        self._seq = 0

    def measures(self) -> Measures:
        """Figures as of now. Raises JournalError."""
        if (found := self._journal.identity()) is not None:
            if self._identity != found:  # the first one, or one that took a damaged one's place
                self._identity, self._seq = found, 0
            for row in self._journal.rows(after=self._seq, tail=None if self._seq else self._records):
                self._seq = row.seq
                self._tally.take(row.to_json())
        return self._tally.measures()
