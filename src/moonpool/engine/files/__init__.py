"""Files of a session: into the sandbox and out of it."""
