"""Use cases: run code, keep sessions, offer tools. Faces and commands call what stands here and decide nothing.

`execution` (one run on one sandbox), `output` (what is kept of what it printed), `deadline` (time that can stand
still), `sessions`, `tools` (the manifest and its wrapper trees), `doctor`.
"""
