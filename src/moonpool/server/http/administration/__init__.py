"""What operators and organisations manage over HTTP: organisations, keys, configurations, tools, rules."""
