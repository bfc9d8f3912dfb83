"""Learned types: result types and examples, taken from calls that worked."""
