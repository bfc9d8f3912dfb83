"""An organisation's own policy: what it may say. Pure.

Of all layers the strictest verdict wins. SECURITY: where no other layer decides, `allow` would be looser than the
default, so an own policy has no `allow` at all, and nothing that lifts a default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.policy import Verdict

if TYPE_CHECKING:
    from moonpool.policy import Layer

TEXT_BYTES_MAX: Final = 256 * 1024


class PolicyRefusedError(MoonpoolError):
    """An organisation's own policy cannot be used: it is none, or it would allow something. Nothing was changed."""

    code = "policy_refused"
    fault = Fault.CALLER


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPolicy:
    """As the organisation wrote it, in TOML."""

    organisation_id: str
    text: str
    set_by: str
    set_at: float  # seconds since 1970


def check_only_stricter(layer: Layer) -> None:
    """Raise PolicyRefusedError for a layer that may let through what the operator's rules do not."""
    for rule in layer.rules:
        if rule.verdict is Verdict.ALLOW:
            raise PolicyRefusedError(
                f"the rule {rule.rule_id!r} allows: only the operator's policy does; leave it out, and write what is "
                "to be denied or asked about"
            )
    if layer.default is Verdict.ALLOW or layer.allow_trusted_reads:
        raise PolicyRefusedError('default = "allow" and allow_trusted_reads = true are for the operator\'s policy only')
    if layer.budgets:
        raise PolicyRefusedError("budgets are for the operator's policy only; limits of keys bound what they use")
