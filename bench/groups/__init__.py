"""Groups of cases that take turns, one module each: `measure(world, sizes)` returns what was measured.

A group opens what it needs and leaves nothing behind; which groups a command runs stands in `bench.suites`.
"""
