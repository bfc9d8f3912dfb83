"""Code whose caller may go away: it is ended then, and its end is waited for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from moonpool.core.envelope import Envelope
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.sessions import Session


async def interruptible(session: Session, request: CodeRequest, *, at_once: bool = False) -> Envelope:
    """Execute `request`. A cancellation ends its code and nothing else of the session; `at_once` kills it, else it is
    interrupted first, so that variables and files stay if possible.

    INVARIANT: it returns or raises only when the code no longer runs and its end is on record.
    """
    begun: list[str] = []
    told = request.begun

    def on_begun(run_id: str) -> None:
        begun.append(run_id)
        if told is not None:
            told(run_id)

    run = asyncio.ensure_future(session.execute(replace(request, begun=on_begun)))
    try:
        return await asyncio.shield(run)
    except asyncio.CancelledError:
        if begun:
            session.interrupt(at_once=at_once, run_id=begun[0])
        else:
            run.cancel()  # it waits for its turn
        await finish(asyncio.wait({run}))
        raise
