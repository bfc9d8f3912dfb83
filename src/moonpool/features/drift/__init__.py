"""Drift: tools that their server changed since they were accepted."""
