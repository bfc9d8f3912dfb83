"""Logging in to MCP servers: an OAuth 2.1 client of our own (docs/decisions/0017-our-own-oauth-client.md).

`challenge`, `addresses` and `metadata` parse what servers send and are pure; `wire` sends requests; `discovery` finds
the issuer for a server, `registration` and `grants` get a client id and tokens there, `login` is the part with a
person, `stored_logins` stores the result, and `credentials` uses all of it to provide the header for a request.

SECURITY: a token goes to the one server URL it was obtained for, a refresh token and a client's secret to the token
endpoint of the issuer that gave them. None of them is in an error, a log line or a record.

RULE: only `wire` imports an HTTP client, and it is imported on first use.
"""
