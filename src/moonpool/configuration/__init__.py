"""Configuration: servers, policy files and permissions as people write them, read into frozen values."""
