"""Recordings: what a replay needs of an execution, kept beside the audit journal."""
