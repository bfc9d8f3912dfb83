"""Benchmarks: what Moonpool costs, measured in one run beside what one would use instead.

Commands: `python -m bench` (everything), `bench.latency`, `bench.throughput`, `bench.memory`, `bench.growth`,
`bench.soak`, `bench.fuzz`, `bench.breakdown`. Inside a group the cases take turns in random order, round by round, so
that noise of the machine falls on all of them alike. Every sample proves that the work was done (answers are compared);
none of them judges time: the table says which budgets were met on this machine, at this load.

`sampling` (cases and rounds), `rows` (what each row is and must reach), `world` (applications to measure), `peers`
(what is compared with), `groups` (one module per group), `suites` (which command runs which), `report` and `table`
(lines, JSON, README), `machine`, `processes`. Not part of the distribution.
"""
