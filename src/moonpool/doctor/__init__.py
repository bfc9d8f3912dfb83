"""The doctor: attacks real sandboxes on this machine and reports which attacks were blocked."""
