"""ipybox's MCP server on Moonpool: `moonpool mcp --profile ipybox`, and `/mcp/ipybox` of a service.

    definitions    the four tools as a model sees them
    tools          what they do: `IpyboxTools`, the tools of one connection
    registration   a server that an agent registers: asked about, on record, connected, written as a package
    kernel         one kernel: its variables, the workspace's modules, executions, packages
    outcomes       what a call that is no execution came to
    hosted         the profile over HTTP: a kernel for each session of MCP
    workspace      the folder that the agent's host works in: `.env`, modules, pictures

How calls are begun, asked about and given up is `moonpool.server.mcp`'s.
"""
