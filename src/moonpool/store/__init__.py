"""What every tenant keeps on disk beside the tables of features: the audit journal, sealed secrets, private files."""
