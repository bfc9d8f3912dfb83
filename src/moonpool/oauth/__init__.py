"""Logging in to MCP servers: an OAuth 2.1 client of our own (docs/decisions/0017-our-own-oauth-client.md).

`challenge`, `addresses` and `metadata` read what servers say and are pure; `wire` sends; `discovery` finds out who
issues tokens for a server, `registration` and `grants` get a client id and tokens there, `login` is the part with a
person, `stored_logins` stores what came of it, and `credentials` puts all of it behind one question: which header now?

SECURITY: a token goes to the one server URL it was obtained for, a refresh token and a client's secret to the token
endpoint of the issuer that gave them. None of them is in an error, a log line or a record.

RULE: only `wire` imports an HTTP client, and it is imported on first use.
"""
