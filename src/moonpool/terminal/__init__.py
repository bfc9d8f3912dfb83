"""Questions to the person at a terminal: approvals and forms of servers."""
