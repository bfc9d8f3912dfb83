"""Kernels without tools, by ipybox's names."""
