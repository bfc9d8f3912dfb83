"""No wall ever starts as kernel uid 0, whose namespaces would not confine it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.identity import Identities, Identity, SingleUids
from moonpool.sandboxes.process import OuterSandboxStarter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.anyio
@pytest.mark.claim("C-ID-1")
async def test_outer_sandbox_does_not_start_as_kernel_uid_0() -> None:
    starter = OuterSandboxStarter()
    with pytest.raises(AssertionError, match="kernel uid 0"):
        await starter.start(["/bin/true"], Identity(0), pass_fds=(), stdout=None, stderr=None)
    await starter.close()


@pytest.mark.claim("C-ID-1")
def test_root_gives_each_outer_sandbox_a_uid_of_its_own(tmp_path: Path) -> None:
    uids = SingleUids(Identities(own_uid=0, locks=tmp_path / "uids"))
    taken = [uids.take(scope) for scope in ("a", "b", "a")]
    assert (len({*taken}), Identity(0) in taken) == (3, False)
    for who in taken:
        uids.give_back(who)


@pytest.mark.req("P-035")
@pytest.mark.claim("C-ID-1")
def test_ordinary_user_serves_one_tenant() -> None:
    identities = Identities(own_uid=1000)
    identities.slice_for("a")
    with pytest.raises(SandboxStartError, match="one tenant"):
        identities.slice_for("b")
