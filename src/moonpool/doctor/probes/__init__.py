"""Attack probes as data: what `moonpool doctor` and `tests/security` try against real sandboxes.

`record` says what a probe is; `prelude` is what every attack program starts with; the other modules hold the attacks by
what they aim at, and `catalogue` lists all of them. A probe names the claim of THREAT_MODEL.md that it attacks.

INVARIANT: a probe is bounded in count, bytes and time by itself, not only by the limits that it tests.
"""
