"""Consents: whether a user agreed that an OAuth client uses logins of ours."""
