"""The Bash kernel: one `bash` per session, a child of PID 1. Runs inside a sandbox."""
