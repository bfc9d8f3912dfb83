"""What a model reads and writes to do a whole task: through Moonpool, and through fastmcp's CodeMode.

`tasks` makes what a task is about and knows its answer, `ours` and `theirs` are what a model says on either side,
`meter` says it to the real server and counts. The scripts are written from what the model has read before each turn;
everything that is read comes from the run.
"""
