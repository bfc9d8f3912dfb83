"""Results sent to addresses that callers name, signed, with retries."""
