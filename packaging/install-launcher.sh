#!/bin/sh
# Ubuntu 24.04 and newer let AppArmor take capabilities away inside user namespaces. There, install a private copy of
# bwrap and a profile that exempts this copy alone; the distribution's own bwrap keeps its restrictions.
# Elsewhere this does nothing. State: expected, not yet proven under such a kernel.
# usage: install-launcher.sh [ROOT]    ROOT is prefixed to every path written or asked (for tests)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${1:-}
launcher=$root/usr/lib/moonpool/launcher
profile=$root/etc/apparmor.d/moonpool-launcher
switch=$root/proc/sys/kernel/apparmor_restrict_unprivileged_userns

[ -r "$switch" ] && [ "$(cat "$switch")" = 1 ] || exit 0

bwrap=$(command -v bwrap) || {
    echo "setup: bwrap is missing" >&2
    exit 1
}
if cmp -s "$bwrap" "$launcher" && cmp -s "$here/apparmor/moonpool-launcher" "$profile"; then
    exit 0
fi

if [ "$(id -u)" != 0 ] && [ -z "$root" ]; then
    if sudo -n true 2>/dev/null; then
        exec sudo -n sh "$here/install-launcher.sh"
    fi
    echo "setup: AppArmor forbids user namespaces here; run once: sudo make launcher" >&2
    exit 1
fi

# The launcher comes first: a profile for a path that anybody else could fill would be a gift.
mkdir -p "$(dirname "$launcher")" "$(dirname "$profile")"
install -m 0755 "$bwrap" "$launcher"
install -m 0644 "$here/apparmor/moonpool-launcher" "$profile"
apparmor_parser --replace "$profile" || {
    echo "setup: AppArmor refused $profile; run and read: sudo apparmor_parser --replace $profile" >&2
    exit 1
}
echo "setup: wrote $launcher (copy of $bwrap) and $profile"
