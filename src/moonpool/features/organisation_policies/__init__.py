"""Rules that an organisation has beside its operator's: they only make things stricter."""
