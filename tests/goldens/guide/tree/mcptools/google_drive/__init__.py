"""Google Drive: each tool is a module with Params, run and, where it is known, Result.

get_document: Read one document.
"""

__all__ = [
    "get_document",
]
