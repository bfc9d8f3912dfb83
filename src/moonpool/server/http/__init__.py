"""HTTP: one path so far, `/metrics`.

`metrics` is an ASGI application, which any ASGI server can mount; `loopback` serves an application on the loopback
interface, for processes without an HTTP server.
"""
