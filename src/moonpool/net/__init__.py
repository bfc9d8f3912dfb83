"""Bounded HTTP and addresses, used by all our connections."""
