"""Named sessions: `moonpool run --session NAME`, one process per session on a Unix socket."""
