"""The tools at one moment: snapshots, wrapper trees on disk, and what servers say has changed."""
