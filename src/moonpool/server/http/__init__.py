"""HTTP: so far one address, `/metrics`.

`metrics` is an ASGI application, which any ASGI server can mount as it is; `loopback` serves one on this machine's
loopback interface, for processes that have no HTTP service of their own.
"""
