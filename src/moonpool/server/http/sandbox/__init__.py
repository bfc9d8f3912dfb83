"""Executions by one HTTP call, as Baponi's clients make them: `/v1/sandbox/execute`, `/v1/executions`, webhooks."""
