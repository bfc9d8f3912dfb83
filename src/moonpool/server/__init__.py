"""Servers: how clients reach the engine. Each decodes a request, makes one call and encodes the answer.

`mcp` serves the Model Context Protocol on stdio, `http` serves `/metrics`, `named_sessions` keeps a session in its own
process. None decides anything about policy, isolation or redaction.
"""
