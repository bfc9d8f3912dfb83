"""Where the time of one tool call, and of one execution, goes: the product's own functions, timed where they stand.

`stopwatch` replaces functions by timed ones for the length of a `with` block; `toolcall` and `execution` say which
functions are the steps of what. A function that is gone is an error: the table must not silently lose a step.
"""
