"""Threads, volumes and their files over HTTP, as Baponi's Files API has them, and signed URLs.

`messages` is the wire. `access` says which tree a caller means and whether it may; `file_routes` and `tree_routes` are
the endpoints, `signed_urls` makes and checks tokens, `blobs` serves them to whoever has one.
"""
