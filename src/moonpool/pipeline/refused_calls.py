"""Refused calls of one execution: the first have a record of their own, all others are counted by kind.

A refused call costs the code nothing and a record costs a kilobyte, so a loop of them would fill the disk and keep the
journal from its neighbours. Only calls that the broker refused by itself are counted: nobody was asked, no server was
called, nothing was answered.

INVARIANT: no refusal is neither recorded nor counted. What is counted is put on record after each
`COUNTED_PER_RECORD` of them and before the end of the execution (`engine.run_records`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_RECORDS_MAX: Final = 100
"""Refused calls of one execution that have a record of their own."""

COUNTED_PER_RECORD: Final = 1000
"""So many may be counted and not yet on record, should the process be killed."""


class RefusedCalls:
    """The account of one execution."""

    def __init__(self) -> None:
        self._own = 0
        self._counted: dict[str, int] = {}
        self._told = set[tuple[str, str]]()

    def is_news(self, tool: str, rule_id: str) -> bool:
        """Whether the operator has not been told yet that this rule refuses this tool, one that there is."""
        known = (tool, rule_id) in self._told
        self._told.add((tool, rule_id))
        return not known

    def has_own_record(self) -> bool:
        """Whether the call that is refused now gets a record of its own; else `count` it."""
        self._own += 1
        return self._own <= OWN_RECORDS_MAX

    def count(self, error_type: str, tool: str = "") -> None:
        """Count one. `tool` is empty when there is no such tool: names that a guest makes up would have no end."""
        name = f"{error_type} {tool}".rstrip()
        self._counted[name] = self._counted.get(name, 0) + 1

    @property
    def is_due(self) -> bool:
        """Whether so many are counted that they are to be put on record now."""
        return sum(self._counted.values()) >= COUNTED_PER_RECORD

    @property
    def is_open(self) -> bool:
        """Whether anything is counted that is not on record yet."""
        return bool(self._counted)

    def take(self) -> Mapping[str, int]:
        """What is counted and not on record yet; from now on it is."""
        counted, self._counted = self._counted, {}
        return dict(sorted(counted.items()))
