"""Static analysis of Python code: imports, tool calls, saved actions. The code is never run."""
