"""Environments: the interpreter, packages and preload list that sandboxes of one kind start from.

`resolve.resolve_environment` is the way in. It answers with a `base.Environment` whose files an unprivileged sandbox
uid can read, building it first where needed. `guest.publish_guest` puts the guest's code beside it.
"""
