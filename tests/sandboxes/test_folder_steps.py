"""What is done about a path, for each way in which a folder and its copy can have changed."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from moonpool.sandboxes.folder_steps import Step, step_for
from moonpool.sandboxes.folder_trees import WITHHELD, Entry
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import Mapping

A, B, C = (Entry(stat.S_IFREG, size=size) for size in (1, 2, 3))
FOLDER, CLOSED = Entry(stat.S_IFDIR, 0o755), Entry(stat.S_IFDIR, 0)
FIXED, FOREIGN, BEFORE = {"is_fixed": True}, {"is_foreign": True}, {"has_begun": False}

STEPS = [
    # known on both sides, there, here, what else is so, step
    pytest.param(A, A, A, {}, Step.NONE, id="as it was"),
    pytest.param(A, B, A, {}, Step.IN, id="changed there"),
    pytest.param(A, None, A, {}, Step.IN, id="removed there"),
    pytest.param(None, A, None, {}, Step.IN, id="made there"),
    pytest.param(A, A, B, {}, Step.OUT, id="changed here"),
    pytest.param(A, A, None, {}, Step.OUT, id="removed here"),
    pytest.param(None, None, A, {}, Step.OUT, id="made here"),
    pytest.param(A, B, C, {}, Step.COMPARE, id="changed on both sides"),
    pytest.param(None, A, B, {}, Step.COMPARE, id="made on both sides"),
    pytest.param(A, None, B, {}, Step.OUT, id="removed there, changed here"),
    pytest.param(A, B, None, {}, Step.IN, id="changed there, removed here"),
    pytest.param(A, None, None, {}, Step.FORGET, id="removed on both sides"),
    pytest.param(A, A, B, FIXED, Step.NONE, id="changed here, where nothing may be changed"),
    pytest.param(None, None, A, FIXED, Step.NONE, id="made here, where nothing may be changed"),
    pytest.param(A, B, C, FIXED, Step.IN, id="changed on both sides, where nothing may be changed here"),
    pytest.param(A, A, B, FOREIGN, Step.BESIDE, id="another user's, changed here"),
    pytest.param(A, A, None, FOREIGN, Step.IN, id="another user's, removed here"),
    pytest.param(FOLDER, FOLDER, CLOSED, FOREIGN, Step.OUT, id="another user's folder, its mode changed here"),
    pytest.param(FOLDER, FOLDER, A, FOREIGN, Step.BESIDE, id="another user's folder, a file in its place here"),
    pytest.param(FOLDER, FOLDER, None, FOREIGN, Step.IN, id="another user's folder, removed here"),
    pytest.param(None, WITHHELD, None, BEFORE, Step.IN, id="withheld, before the guards are set"),
    pytest.param(None, WITHHELD, None, {}, Step.NONE, id="withheld"),
    pytest.param(None, WITHHELD, A, {}, Step.BESIDE, id="withheld, and made here"),
    pytest.param(A, WITHHELD, A, {}, Step.NONE, id="withheld since"),
    pytest.param(A, WITHHELD, B, {}, Step.BESIDE, id="withheld since, changed here"),
    pytest.param(A, WITHHELD, B, FIXED, Step.NONE, id="withheld since, changed where nothing may be changed"),
]  # fmt: skip


@every_row(("known", "there", "here", "so", "step"), STEPS)
def test_each_path_gets_the_step_that_loses_nothing(
    known: Entry | None, there: Entry | None, here: Entry | None, so: Mapping[str, bool], step: Step
) -> None:
    assert step_for(None if known is None else (known, known), there, here, **so) is step
