"""Usage: tokens and times, counted for envelopes, `moonpool stats` and `/metrics`."""
