"""Many executions at once, each with a nonce that nobody else has: nothing may be lost, swapped or hung.

`kinds` (what an execution does and must bring back), `marathon` (the run, and what it counts), `programs` (snippets of
all sorts for the fuzz, from a seed). Tests run the same with smaller counts.
"""
