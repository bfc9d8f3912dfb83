"""Replay: an execution again, from its recording, in a real sandbox, without any server."""
