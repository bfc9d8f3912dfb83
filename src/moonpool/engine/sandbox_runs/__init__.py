"""One call, one sandbox: code run for a thread, with variables and volumes, as Baponi's users know it."""
