"""Servers that organisations of a service add for themselves, by URL."""
