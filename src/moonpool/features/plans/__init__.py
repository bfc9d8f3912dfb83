"""Plans: what a dry run found, for a person to approve once."""
