"""Spans of OpenTelemetry: `spans` is what all other packages see, `calls` a tool call's span; the rest makes them.

Nothing outside `adapter` and `exporter` imports OpenTelemetry, and these are imported only where spans are made.
"""
