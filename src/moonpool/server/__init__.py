"""Servers: how the outside reaches the engine. Each decodes a request, makes one call, encodes the answer.

`mcp` is the Model Context Protocol on stdio, `http` serves `/metrics`, `named_sessions` a session in a process of its
own. None decides anything about policy, isolation or redaction.
"""
