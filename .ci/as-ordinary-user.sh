#!/usr/bin/env bash
# `make test` as an unprivileged uid, in a copy of this checkout with its own .venv and HOME. Started by root; creates no
# account. With arguments: pytest with these instead.
# usage: as-ordinary-user.sh [PYTEST ARGUMENT...]
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
uid=${MOONPOOL_CI_UID:-12345}

# Below /var/tmp: a sandbox covers /tmp with its own. Short: tests make sockets below it, whose paths hold 107 bytes.
place=$(mktemp -d /var/tmp/mp.XXXXXX)
trap 'rm -rf "$place" >/dev/null 2>&1 &' EXIT # whoever called need not wait for that
chmod 0755 "$place"

as_user() {
    setpriv --reuid "$uid" --regid "$uid" --clear-groups --inh-caps=-all --bounding-set=-all "$@"
}

readable_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" /usr/bin/python3 /usr/local/bin/python3; do
        candidate=$(command -v "$candidate") || continue
        if as_user "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "no Python 3.11 or newer that uid $uid can read; run: apt-get install -y python3 python3-venv" >&2
    return 1
}

python=$(readable_python)
mkdir "$place/checkout" "$place/home" "$place/t"
# Exactly what git knows, as it is now: uncommitted changes are tested too, leftovers are not.
git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
    tar --null --files-from=- -cf - | tar -xf - -C "$place/checkout"

cd "$place/checkout"
git init --quiet . # some tests ask git which files there are
git add --all
# As root, so that the cache of downloaded packages is used; copied, so that the cache keeps its owner.
UV_LINK_MODE=copy PYTHON="$python" sh .ci/setup.sh dev
chown -R "$uid:$uid" "$place/checkout" "$place/home" "$place/t"

# Package settings are read as root, who may be the only one with a pip configuration, and handed down as uv's.
as_ordinary_user() {
    .venv/bin/python src/moonpool/environments/package_index.py \
        env -u MOONPOOL_REQUIRE_LIMITS -u XDG_DATA_HOME -u XDG_CACHE_HOME -u XDG_CONFIG_HOME -u UV_CACHE_DIR -u VIRTUAL_ENV HOME="$place/home" TMPDIR="$place/t" PATH="$PATH" \
        setpriv --reuid "$uid" --regid "$uid" --clear-groups --inh-caps=-all --bounding-set=-all "$@"
}
if [ $# -gt 0 ]; then
    as_ordinary_user .venv/bin/python -m pytest --basetemp "$place/t/p" "$@"
else
    # Whole: what makes sandboxes and files, and attacks them. Of the rest only what names a mode, an account or a limit
    # can come out otherwise than for root, who runs all of it.
    same=$(grep -LEr --include='test_*.py' --exclude-dir=environments --exclude-dir=files --exclude-dir=kernel \
        --exclude-dir=sandboxes --exclude-dir=security --exclude-dir=stored_files \
        'chmod|(^|[^ug])uids?([^a-z]|$)|PermissionError|rlimit|cgroup' tests) # no uuid, no guide
    left_out=$(printf -- '--ignore=%s ' $same)
    as_ordinary_user make test PYTHON="$python" PYTEST_OPTIONS="--basetemp $place/t/p $left_out${PYTEST_OPTIONS:-}"
fi
# Tests have a data folder of their own: the account's must not even be there.
if [ -e "$place/home/.local/share/moonpool" ]; then
    echo "tests used the account's own data folder: $(cd "$place/home" && find .local -maxdepth 4 | head -n 20 | tr '\n' ' ')" >&2
    exit 1
fi
