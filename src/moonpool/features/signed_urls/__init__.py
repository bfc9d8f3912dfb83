"""Addresses that are a credential themselves: for one file of a stored tree, one method, for some minutes."""
