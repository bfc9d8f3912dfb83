"""The engine: sessions, runs and executions. Servers and commands call what stands here and decide nothing.

`sessions` keeps kernels and their state; `runs` is one run with its records and its envelope; `execution` one execution
on one sandbox; `tool_calls` its calls; `output` what is kept of what it printed; `run_ending`, `envelopes` and
`error_hints` what is told of its end; `events` the same as a stream; `pending_calls` runs that outlive the request that
started them; `tool_registry` which tools there are; `files` what goes in and out.
"""
