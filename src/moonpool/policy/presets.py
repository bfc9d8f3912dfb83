"""Rules that ship with Moonpool, taken into a policy file by name. Their ids begin with `preset:`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from moonpool.policy.rules import Rule
from moonpool.policy.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

PresetName: TypeAlias = Literal["no-exfiltration"]
PRESET_PREFIX: Final = "preset:"
PRESETS: Final[Mapping[str, tuple[Rule, ...]]] = {
    # The author of the untrusted text may control the code by now, so an automatic yes does not count.
    "no-exfiltration": (
        Rule(
            rule_id=f"{PRESET_PREFIX}no-exfiltration",
            verdict=Verdict.HUMAN_ONLY,
            after=("private", "untrusted"),
            does=("sends_out",),
            note="private data and untrusted content were both read before",
        ),
    ),
}
