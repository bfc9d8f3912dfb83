"""The profile `direct`: tools, resources and prompts of servers as they are, each call through the call pipeline.

`tools` is the profile of one principal; `server` the SDK's server with its handlers; `offered` what is offered now and
under which names (`names`, `shown`); `calls` one call and its answer (`content`, `relay`); `watching` news of changes.

SECURITY: servers are not trusted. What they list and answer is bounded and brought into the protocol's form, and only
policy, never a server, says what may be called.
"""
