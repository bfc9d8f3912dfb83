#!/bin/sh
# Compile every requirement lock from pyproject.toml and the .in files. Options go to uv, for example --upgrade.
set -eu
cd "$(dirname "$0")/.."
exec .venv/bin/python src/moonpool/environments/package_index.py \
    .venv/bin/python requirements/locks.py compile "$@"
