"""Pure vocabulary of Moonpool: names, errors, records and rules. No I/O, no clock, no async."""
