"""The catalog: which tools there are, which of them fit a question, and what one of them looks like in full.

Models see a handful of lines instead of every schema (guide: progressive disclosure). Start at `catalog.Catalog`.
Everything in here is a pure function of a manifest: no I/O, no clock, no model, the same answer every time.
"""
