"""Tools that an organisation has switched off for all its callers."""
