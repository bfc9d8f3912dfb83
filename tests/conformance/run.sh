#!/bin/sh
# From a bare checkout to the verdict: install the locked suite and the Node it needs, then examine Moonpool with it, as
# a client or as a server, at one revision's wire. Prints the suite's summary last and exits by it.
#
#     run.sh client|server REVISION [pytest options]
set -eu
case "${1:-} ${2:-}" in
"client 2025-03-26" | "client 2025-11-25" | "client 2026-07-28" | "server 2025-11-25" | "server 2026-07-28") ;;
*)
    echo "usage: $0 client|server REVISION [pytest options]; revisions: 2025-11-25, 2026-07-28, client also 2025-03-26" >&2
    exit 2
    ;;
esac
role=$1
export CONFORMANCE_REVISION=$2
shift 2
cd "$(dirname "$0")/../.."
sh .ci/setup.sh dev
CONFORMANCE_SUMMARY=$(mktemp)
export CONFORMANCE_SUMMARY
trap 'rm -f "$CONFORMANCE_SUMMARY"' EXIT
status=0
.venv/bin/python -m pytest -q -p no:inline_snapshot "tests/conformance/test_$role.py" "$@" || status=$?
cat "$CONFORMANCE_SUMMARY"
exit "$status"
