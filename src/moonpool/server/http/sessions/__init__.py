"""Sessions over HTTP: what `moonpool.connect` speaks, and any client of `/v1/openapi.json`.

`messages` and `lines` are the wire, which the client imports, too; `errors` what can be wrong with a request. A
`ServedSession` holds one session of the engine, a `RunningCode` one of its executions with the lines that a client may
read again; `SessionRegistry` knows whose they are. `bodies`, `routes`, `file_routes`, `application` are HTTP;
`openapi` describes it.
"""
