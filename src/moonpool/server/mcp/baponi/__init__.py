"""The profile `baponi`: Baponi's MCP server as its page describes it, for clients that were made for it.

| module | idea |
|---|---|
| `definitions` | the texts that are fixed byte by byte: handshake and tools |
| `served` | one request to one answer |
| `execution` | `sandbox_execute`: arguments to an order, a result to text |
| `downloads` | `files_download`: a file of a stored tree to content |

Stateless; tools only. `notifications/cancelled` is accepted and does nothing, since there is no session to find a
request in; a client that breaks its connection cancels the execution that it waits for.
"""
