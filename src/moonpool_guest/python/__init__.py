"""The Python kernel: `kernel` (the loop), `execution` (one run), `handoff` (result to JSON), `nesting` (asyncio).

`sources` stands between code and clock and randomness, `tape` records and plays them, `deck` puts tapes in.
"""
