"""The MCP server: three tools over stdio, for every protocol revision from 2024-11-05 to 2026-07-28.

The path of a message, from outside in:

- `stdio`: takes over the standard streams, starts and ends everything;
- `lines`: bytes to lines and back, with caps;
- `messages`: one line of JSON to one JSON-RPC message or a description of its error (pure);
- `protocol_gate`, `in_flight`: JSON-RPC rules that the SDK does not enforce (ids, batches, order of the handshake);
- `server`: the SDK's low-level server with our handlers;
- `tools`, `sessions`, `catalogs`: one call each into engine and catalog;
- `definitions`, `instructions`, `arguments`, `answers`: the text that a model reads and writes (pure).

The package `mcp` takes a second to import; only `protocol_gate` and `server` import it, and `stdio` imports those when
it serves.
"""
