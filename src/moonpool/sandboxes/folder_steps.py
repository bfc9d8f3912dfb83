"""What has to be done about one path of a folder and its copy, by what both sides were and are. Pure."""

from __future__ import annotations

import stat
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moonpool.sandboxes.folder_trees import Entry


class Step(Enum):
    NONE = "none"
    IN = "in"  # the host's into the copy
    OUT = "out"
    COMPARE = "compare"  # both changed: nothing if alike, else BESIDE
    BESIDE = "beside"  # the copy's gets another name
    FORGET = "forget"  # both removed it


def step_for(
    known: tuple[Entry, Entry] | None,
    there: Entry | None,
    here: Entry | None,
    *,
    is_fixed: bool = False,
    is_foreign: bool = False,
    has_begun: bool = True,
) -> Step:
    """The step that loses nothing that either side made.

    `known` is the host's and the copy's when they were the same, `there` the host's now, `here` the copy's. `is_fixed`:
    code may not change it; `is_foreign`: the folder's owner may not. `has_begun`: PID 1 has set its guards.
    """
    was_there, was_here = known or (None, None)
    host_changed, copy_changed = there != was_there, here != was_here and not is_fixed
    if there is not None and not there.kind:  # withheld
        if here is None:
            return Step.NONE if has_begun else Step.IN  # a mask, in time for PID 1
        return Step.BESIDE if copy_changed else Step.NONE
    if not copy_changed:
        return Step.IN if host_changed else Step.NONE
    if host_changed:
        if there is None or here is None:
            return Step.FORGET if there is here else Step.IN if here is None else Step.OUT
        return Step.COMPARE
    if is_foreign and here is None:
        return Step.IN
    of_a_folder = here is not None and there is not None and here.kind == there.kind == stat.S_IFDIR  # only its mode
    return Step.BESIDE if is_foreign and not of_a_folder else Step.OUT
