"""Authenticators: what knows one kind of credential each; and the limit on failed attempts."""
