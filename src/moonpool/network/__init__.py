"""Network by permission: which domains the code of a session may reach, and the proxy that takes it there."""
