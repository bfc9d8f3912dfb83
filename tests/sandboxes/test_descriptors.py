"""Where a process has no descriptor left, a start fails by name, and takes none with it."""

from __future__ import annotations

import errno
import itertools
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.sandboxes.base import SandboxSpec, SandboxStartError
from sandboxes.conftest import REAL
from sandboxes.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.bubblewrap import BubblewrapBackend
    from moonpool.sandboxes.zygote import ZygoteBackend

    Backend = ZygoteBackend | BubblewrapBackend

pytestmark = pytest.mark.anyio

MAKERS = ((os, "pipe2"), (os, "memfd_create"), (socket, "socketpair"))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def starved(act: Callable[[], Awaitable[Any]], nth: int) -> SandboxStartError | None:
    """What `act` raises when the `nth` descriptor that it wants is refused; None if it does not want so many."""
    wanted = itertools.count(1)

    def scarce(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> Any:
            if next(wanted) == nth:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return make(*arguments, **options)

        return made

    with pytest.MonkeyPatch.context() as patch:
        for module, name in MAKERS:
            patch.setattr(module, name, scarce(getattr(module, name)))
        try:
            with anyio.fail_after(60):
                await act()
        except SandboxStartError as error:
            return error
    return None


async def test_a_sandbox_that_gets_no_descriptor_is_refused_and_the_next_opens(
    real_backend: Backend, image: ImageSpec
) -> None:
    spec = SandboxSpec(image=image)
    await (await real_backend.open_sandbox(spec)).close()  # reaper and zygote are there
    before = descriptors()
    for nth in itertools.count(1):
        error = await starved(lambda: real_backend.open_sandbox(spec), nth)
        if error is None:
            break
        assert (error.step, "Too many open files" in error.reason) == ("descriptors", True)
        assert descriptors() == before
    assert nth > 3
    assert (await Probe(await real_backend.open_sandbox(spec)).run("result = 1")).result == 1


async def test_a_zygote_that_gets_no_descriptor_is_refused(image: ImageSpec, state_dir: Path) -> None:
    before = descriptors()
    steps: list[str] = []
    for nth in itertools.count(1):
        backend = REAL["zygote"](state_dir)
        error = await starved(lambda: backend.zygote("default", image), nth)  # noqa: B023
        await backend.close()
        assert descriptors() == before
        if error is None:
            break
        assert "Too many open files" in error.reason
        steps.append(error.step)
    own = 6 if os.geteuid() == 0 else 4  # root maps uids
    assert steps == ["descriptors"] * own + ["outer sandbox"]  # the last is for the reaper
