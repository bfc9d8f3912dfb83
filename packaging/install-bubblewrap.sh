#!/bin/sh
# Make sure bubblewrap 0.8 or newer is installed: with apt when we may, else by naming the one command to type.
set -eu

is_new_enough() {
    version=$(bwrap --version 2>/dev/null) || return 1
    version=${version#bubblewrap }
    major=${version%%.*}
    rest=${version#*.}
    minor=${rest%%.*}
    [ "$major" -gt 0 ] || [ "$minor" -ge 8 ]
}

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

is_new_enough && exit 0
command -v apt-get >/dev/null 2>&1 || fail "bubblewrap 0.8 or newer is missing; install it with your package system"

if [ "$(id -u)" = 0 ]; then
    as_root=
elif sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    fail "bubblewrap 0.8 or newer is missing; run: sudo apt-get install -y bubblewrap"
fi

install_it() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null 2>&1
}

echo "setup: installing bubblewrap with apt"
install_it || { $as_root apt-get update -qq >/dev/null 2>&1 && install_it; } ||
    fail "apt could not install bubblewrap; run and read: ${as_root:+sudo }apt-get update && ${as_root:+sudo }apt-get install bubblewrap"
is_new_enough || fail "this distribution's bubblewrap is older than 0.8; use Debian 12, Ubuntu 24.04 or newer"
