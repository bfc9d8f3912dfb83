"""The profile `codegen`: the tools of codegen-sandbox on a stored workspace, by HTTP+SSE or Streamable HTTP.

| module | idea |
|---|---|
| `tool_table` | what a tool is here, and the table of all |
| `workspace` | the thread that the tools work in, and which paths are in it |
| `reading` | `Read` |
| `scrubbing` | everything that leaves passes the tenant's redactor, once for all tools and transports |
| `served` | the server of one connection |

A tool is a function from a workspace and arguments to text. What a user can put right is a `ToolError`, which becomes a
result with `isError`; whatever else fails becomes a JSON-RPC error.
"""
