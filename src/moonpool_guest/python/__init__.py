"""The Python kernel: `kernel` (the loop), `execution` (one run), `handoff` (result to JSON), `nesting` (asyncio)."""
