"""Tool calls and their approval, by ipybox's names."""
