"""Organisations: whose programs and users the service serves. Each is one tenant."""
