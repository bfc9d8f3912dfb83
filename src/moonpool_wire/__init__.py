"""The wire between host and guest: framing, blobs, limits and the names of messages. Stdlib only, no I/O.

Both sides import this package: the host (`moonpool.sandboxes`) and the code inside a sandbox (`moonpool_guest`). It
knows bytes and states, never sockets; whoever owns a socket feeds bytes in and sends bytes out.
"""
