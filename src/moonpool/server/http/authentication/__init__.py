"""Authenticators: each turns one kind of credential into an `HttpCaller`."""
