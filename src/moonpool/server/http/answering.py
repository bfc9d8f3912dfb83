"""Who a caller is when it answers approvals and plans over HTTP. Pure.

What an answerer may approve is decided where answers are taken (`features.approvals`, `features.plans`): not what its
own code asks, and as a person only what policy reserves for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.features.approvals.model import Answerer

if TYPE_CHECKING:
    from moonpool.server.http.callers import HttpCaller


def answerer_of(caller: HttpCaller) -> Answerer:
    """The caller as an answerer. Raises ScopeError for a credential without the scope `approve`.

    SECURITY: the name in records is the principal, so a key or a machine cannot pass for the user of a terminal.
    """
    caller.require("approve")
    name = caller.principal if caller.is_person else f"api:{caller.principal}"
    return Answerer(name=name, person=caller.is_person, principal=caller.principal)
