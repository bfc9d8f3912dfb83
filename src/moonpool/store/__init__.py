"""A tenant's data on disk besides the tables of features: the audit journal, encrypted secrets, private files."""
