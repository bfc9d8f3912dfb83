"""The catalog: lists tools, finds those that fit a question, and shows full definitions.

Models see a few lines instead of every schema (guide: progressive disclosure). Start at `catalog.Catalog`. Everything
here is a pure function of a manifest: no I/O, no clock, no model, deterministic.
"""
