"""Redaction: secrets and personal data are found and replaced before anything leaves the broker."""
