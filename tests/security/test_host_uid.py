"""No wall ever starts as kernel uid 0, whose namespaces would not confine it."""

from __future__ import annotations

import pytest

from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.identity import Identities, Identity
from moonpool.sandboxes.process import WallStarter


@pytest.mark.anyio
@pytest.mark.claim("C-ID-1")
async def test_wall_does_not_start_as_kernel_uid_0() -> None:
    starter = WallStarter()
    with pytest.raises(AssertionError, match="kernel uid 0"):
        await starter.start(["/bin/true"], Identity(0), pass_fds=(), stdout=None, stderr=None)
    await starter.close()


@pytest.mark.claim("C-ID-1")
def test_root_gives_each_tenant_a_uid_of_its_own() -> None:
    identities = Identities(own_uid=0)
    uids = [identities.of(scope).uid for scope in ("a", "b", "a")]
    assert (uids[0], len({*uids}), 0 in uids) == (uids[2], 2, False)


@pytest.mark.claim("C-ID-1")
def test_ordinary_user_serves_one_tenant() -> None:
    identities = Identities(own_uid=1000)
    identities.of("a")
    with pytest.raises(SandboxStartError, match="one tenant"):
        identities.of("b")
