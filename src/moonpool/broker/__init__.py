"""The broker: the one side of the opening in the floor that talks to the world.

`config` reads which MCP servers there are, `upstreams` keeps a connection to each of them, and `call_pipeline` is the
fixed order that every tool call passes. Credentials live in this room and never leave it.
"""
