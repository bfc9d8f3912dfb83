"""How well the catalog's search finds the right tools, beside others, on a folder of labelled questions.

`python -m bench.retrieval --data DIR`; see README.md beside this package. `query_sets` reads the folder, `metrics`
scores a ranking, `systems` and `fastmcp_ranking` rank, `sessions` replays whole tasks, `scale` measures cost,
`report` prints. The questions are other people's data: they are read from DIR and nothing of them is kept here.
"""
