"""github: each tool is a module with Params, run and, where it is known, Result.

search_repositories: Find GitHub repositories.
"""

__all__ = [
    "search_repositories",
]
