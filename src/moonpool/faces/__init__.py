"""Faces: how the outside reaches the runtime. Each decodes a request, makes one call, encodes the answer.

`mcp` is the Model Context Protocol (stdio). A face decides nothing about policy, isolation or redaction.
"""
