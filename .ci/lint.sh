#!/bin/sh
# Every check that reads code instead of running it. All of them run; the exit code says whether all passed.
set -u
cd "$(dirname "$0")/.." || exit 1
bin=.venv/bin
failed=

check() {
    name=$1
    shift
    if output=$("$@" 2>&1); then
        printf 'lint: %s ok\n' "$name"
    else
        printf '%s\nlint: %s FAILED\n' "$output" "$name"
        failed=1
    fi
}

check "ruff check" "$bin/ruff" check --quiet .
check "ruff format" "$bin/ruff" format --check --quiet .
check "basedpyright" "$bin/basedpyright"
check "import layers" "$bin/lint-imports"
check "requirement locks" "$bin/python" requirements/locks.py check
check "goldens" "$bin/python" -m pytest -q tests/wrappers/test_goldens.py
exit "${failed:-0}"
