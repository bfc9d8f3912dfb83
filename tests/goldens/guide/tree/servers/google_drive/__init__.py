"""Google Drive: 1 tool of the server "google-drive".

import servers.google_drive; await servers.google_drive.<tool>(...), or <tool>_sync(...) without await.

get_document: Read one document.
"""

from client.packages import open_server

__all__ = ["get_document", "get_document_sync"]

open_server(__name__, {"get_document": ("get_document", "get_document_sync")})
del open_server  # a tool may be called that
