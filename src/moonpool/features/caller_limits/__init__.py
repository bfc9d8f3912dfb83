"""How much callers and organisations may use the service: requests, executions at once, executions."""
