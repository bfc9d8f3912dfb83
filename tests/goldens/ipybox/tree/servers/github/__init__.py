"""github: 1 tool of the server "github".

import servers.github; await servers.github.<tool>(...), or <tool>_sync(...) without await.

search_repositories: Find GitHub repositories.
"""

from client.packages import open_server

__all__ = ["search_repositories", "search_repositories_sync"]

open_server(__name__, {"search_repositories": ("search_repositories", "search_repositories_sync")})
del open_server  # a tool may be called that
