"""The doctor: attacks real sandboxes on this machine and reports what held."""
