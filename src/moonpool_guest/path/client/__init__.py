"""What generated wrappers and hand-written code in a sandbox call tools with; see `client.mcp_client`."""
