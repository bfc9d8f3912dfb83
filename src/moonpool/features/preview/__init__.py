"""Preview: what code would call, read off its text without running it."""
