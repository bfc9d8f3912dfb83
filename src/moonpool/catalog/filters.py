"""Filters of a search, by annotations of servers and labels of the host.

Annotations come from servers, labels from the host. SECURITY: annotations only filter a search; `policy` decides
whether a call is allowed and trusts annotations only of trusted servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, TypeAlias

from moonpool.catalog.documents import KEPT_MARK
from moonpool.catalog.errors import CatalogQueryError
from moonpool.catalog.library_entries import kind_of
from moonpool.policy.labels import DOES, RETURNS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from moonpool.catalog.index import Index
    from moonpool.core.manifest import ToolDefinition

ToolFilter: TypeAlias = "Callable[[ToolDefinition], bool]"
LABELS: Final = (*RETURNS, *DOES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFilter:
    """The slots of an index that a search may return. `slots` None: all."""

    index: Index
    find: Callable[[tuple[str, str]], ToolDefinition]
    path: Callable[[ToolDefinition], str]
    slots: frozenset[int] | None
    matches: Callable[[str], bool] | None
    only: ToolFilter | None

    def __call__(self, slot: int) -> bool:
        if self.slots is not None and slot not in self.slots:
            return False
        if self.matches is None and self.only is None:
            return True
        tool = self.find(self.index.at(slot).key)
        if self.only is not None and not self.only(tool):
            return False
        if self.matches is None:
            return True
        return any(map(self.matches, self._texts(tool)))

    def _texts(self, tool: ToolDefinition) -> tuple[str, ...]:
        """The strings that a pattern is matched against, one by one, so that `^` and `$` match the ends of a name."""
        name = f"{tool.server_id.removeprefix(KEPT_MARK)}.{tool.name}"
        return (tool.name, name, self.path(tool), tool.title, tool.description)


def only_tools(
    *,
    read_only: bool = False,
    labels: Sequence[str] = (),
    labels_of: Callable[[ToolDefinition], Collection[str]] | None = None,
) -> ToolFilter | None:
    """A filter, or None if there are no conditions. A tool must have all of `labels`. Raises CatalogQueryError."""
    for label in labels:
        if label not in LABELS:
            near = get_close_matches(label[:80], LABELS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(LABELS)}"
            raise CatalogQueryError(f"there is no label {label[:80]!r}; {hint}")
    wanted = frozenset(labels)
    if not read_only and not wanted:
        return None

    def admits(tool: ToolDefinition) -> bool:
        if wanted and kind_of(tool.server_id) is not None:
            return False  # only tools have labels
        if read_only and tool.annotations.get("readOnlyHint") is not True:
            return False
        return not wanted or (labels_of is not None and wanted <= frozenset(labels_of(tool)))

    return admits
