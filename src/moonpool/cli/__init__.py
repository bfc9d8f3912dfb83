"""Commands: parse, one call, print, exit code. Nothing heavy is imported before a command needs it."""
