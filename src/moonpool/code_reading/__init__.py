"""Python code read without running it: imports, tool calls, saved actions."""
