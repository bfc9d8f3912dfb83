"""The pipeline: every tool call passes its stages in a fixed order, and nothing else reaches a server.

`pipeline` is that order; `call_state` one call on its way and the frozen context of its execution; `resolving`,
`validation`, `approval`, `normalisation`, `call_records` are stages; `dry_run` and `planned_run` are put in by
executions; `server_requests` passes on what servers ask meanwhile. `caller_grant` says what a caller may do.
"""
