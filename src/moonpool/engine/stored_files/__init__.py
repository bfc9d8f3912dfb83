"""Stored trees in sandboxes: into one before code, and what changed out of it after (decision 0091)."""
