"""What the benchmarks compare with: environments of their own (`venvs`), agents in them (`agents` drives, `*_agent.py`
run there), programs started over and over (`programs`, `spawner`), and all of them for one run (`company`).

A peer that cannot be had is a row that says why (`PeerMissingError`), never the end of a run.
"""
