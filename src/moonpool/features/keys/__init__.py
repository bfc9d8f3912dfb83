"""Keys: credentials of programs, `sk-<region>-...`, made once, shown once, stored as a hash."""
