#!/bin/sh
# From a bare checkout to the verdict: install the locked suite and the Node it needs, then examine the broker with it.
# Arguments go to pytest, e.g. -k sse-retry.
set -eu
cd "$(dirname "$0")/../.."
sh .ci/setup.sh dev
exec .venv/bin/python -m pytest -q tests/conformance "$@"
