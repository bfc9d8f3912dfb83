"""Changes of tools as data. Pure."""
