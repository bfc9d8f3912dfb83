"""Network by permission: which domains the code of a session may reach, and the proxy of the host that takes it there."""
