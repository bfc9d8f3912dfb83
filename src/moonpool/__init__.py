"""Host side of Moonpool."""
