"""Benchmarks: what Moonpool costs, measured in one run beside what one would use instead.

`python -m bench` runs groups of cases. Inside a group the cases take turns in random order, round by round, so that
noise of the machine falls on all of them alike. Every sample proves that the work was done (answers are compared);
none of them judges time: the table says which budgets of `bench.budgets` were met on this machine, at this load.

`sampling` (cases and rounds), `budgets` (what each row is and must reach), `world` (applications to measure),
`programs` and `spawner` (processes to compare with), `report` (table, JSON, README), `machine`; the other modules are
one group each. Not part of the distribution.
"""
