"""Budgets of principals, counted for good and by all replicas."""
