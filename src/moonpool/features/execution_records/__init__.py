"""What is kept of executions asked for by one HTTP call: their state, output and webhook, for some days."""
