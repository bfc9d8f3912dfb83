"""Clocks of a call stand still while somebody is asked, also those that begin meanwhile."""

from __future__ import annotations

from call_contexts import call_context
from moonpool.core.manifest import Manifest
from moonpool.pipeline.approval import DenyApprover, LiveApprovals
from moonpool.upstreams.open_call import OpenCall


class Watch:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def stop(self) -> None:
        self.told.append("stop")

    def go_on(self) -> None:
        self.told.append("go on")


def test_a_clock_that_begins_during_a_question_stands_still_like_the_others() -> None:
    context = call_context(lambda: Manifest(servers=()), approvals=LiveApprovals(DenyApprover()))
    call, early, late = OpenCall(context, "srv.tool"), Watch(), Watch()
    with call.ticking(early), call.paused(), call.paused(), call.ticking(late):
        pass
    with call.paused(), call.ticking(late):
        pass
    assert (early.told, late.told) == (["stop", "go on"], ["stop", "stop"])
