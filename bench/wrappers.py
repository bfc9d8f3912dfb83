"""`python -m bench.wrappers --toollists DIR [--json]`: time the wrappers and stubs of a folder of tool lists.

What the files look like: `bench.groups.wrapper_trees`.
"""

from __future__ import annotations

from bench.groups.wrapper_trees import main

if __name__ == "__main__":
    main()
