"""The Python kernel: `kernel` (the loop), `execution` (one run), `handoff` (result to JSON), `nesting` (asyncio).

`sources` replaces clocks and randomness for code, `nondeterminism_log` records and replays them, `recorder` starts and
stops that for an execution.
"""
