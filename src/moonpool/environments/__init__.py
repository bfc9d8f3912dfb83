"""Environments: the interpreter, packages and preload list that sandboxes start from.

`resolve.resolve_environment` is the entry point. It returns a `base.Environment` whose files an unprivileged sandbox
uid can read, and builds it if needed. `guest.publish_guest` publishes the guest's code beside it.
"""
