"""Packages that a session installs: resolved and unpacked in a sandbox of their own, published into the session's."""
