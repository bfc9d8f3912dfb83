"""Attack probes as data, which `moonpool doctor` and `tests/security` run against real sandboxes.

`record` defines probes; `prelude` is the beginning of every attack program; the other modules hold the attacks by
target, and `catalogue` lists all of them. A probe names the claim of THREAT_MODEL.md that it attacks.

INVARIANT: a probe bounds its own count, bytes and time, independent of the limits that it tests.
"""
