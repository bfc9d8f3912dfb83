"""Servers: how clients reach the engine. Each decodes a request, makes one call and encodes the answer.

`mcp` has the tools and profiles of the Model Context Protocol and serves them on stdio; `http` is the service: who
calls, every revision of MCP over HTTP, sessions, `/metrics`. None decides anything about policy, isolation or
redaction.
"""
