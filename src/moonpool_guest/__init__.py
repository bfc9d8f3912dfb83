"""Everything that runs inside a sandbox. Standard library and `moonpool_wire` only; started with `python -I -S`.

`zygote` forks sandboxes, `confine` locks a fresh child in, `python.kernel` runs code, `toolcalls` reaches the broker.

SECURITY: user code runs in the same process and can change anything here. Nothing in this package is trusted by the
host; the boundary is the Linux kernel's.
"""
