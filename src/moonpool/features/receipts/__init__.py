"""Receipts: what the audit journal says of one execution, signed."""
