"""Brave Search: each tool is a module with Params, run and, where it is known, Result.

brave_image_search: Search the web for images.
"""

__all__ = [
    "brave_image_search",
]
