"""Entries of the library as data. Pure."""
