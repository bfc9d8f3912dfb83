"""Sandboxes: isolated OS environments with one channel each.

`base` is the seam (Protocol, specs, outcomes); `zygote` and `bubblewrap` are the real backends, `fake` the in-memory
twin; all pass `tests/sandboxes/test_contract.py`. `plan`, `seccomp`, `slots` and `link` hold one idea each. `pool`
keeps ready ones.
"""
