"""The first lines of every attack program in Bash: the functions of `prelude`, for commands.

`attempt NAME REGEX COMMAND...` is blocked if the command fails and its output matches: a command that is missing or
fails for another reason proves nothing. A program that this host does not have is skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

BASH_PRELUDE: Final = r"""
through=() stopped=() tries=0
note() { through+=("${*//[^a-zA-Z0-9 .,:;=_\/+-]/?}"); }
seen() { tries=$((tries + 1)); stopped+=("${*//[^a-zA-Z0-9 .,:;=_\/+-]/?}"); }
has() { type -P "$1" >/dev/null; }
attempt() {
    local name=$1 regex=$2 said status
    shift 2
    [[ $(type -t "$1") = file || $(type -t "$1") = "" ]] && ! has "$1" && return
    tries=$((tries + 1))
    said=$("$@" 2>&1 >/dev/null </dev/null)
    status=$?
    if [ $status = 0 ]; then note "$name: got through"
    elif ! [[ $said =~ $regex ]]; then note "$name: ${said:0:200}"
    else stopped+=("${BASH_REMATCH[0]:0:60}")
    fi
}
# As many processes as there may be: xargs waits when it cannot fork, where bash would try for 15 seconds.
fill_processes() {
    local before=-1 calm=0 looks=0
    mkfifo /tmp/pause && exec 9<>/tmp/pause
    (seq $((PROCESSES + 32)) | xargs -P 1000 -n 1 sleep 20 >/dev/null 2>&1) &
    while [ $calm -lt 5 ] && [ $((looks += 1)) -lt 100 ]; do
        read -r -t 0.1 -u 9
        set -- /proc/[0-9]*
        count=$#
        [ $count = $before ] && [ $count -gt $((PROCESSES / 2)) ] && calm=$((calm + 1)) || calm=0
        before=$count
    done
}
verdict() { # without a fork: an attack may have used up all processes
    local IFS=';' blocked=true words
    words=${through[*]}
    [ ${#through[@]} = 0 ] || blocked=false
    if [ -z "$words" ]; then
        local -A kinds=()
        local one
        for one in "${stopped[@]}"; do kinds[x$one]=$((${kinds[x$one]:-0} + 1)); done
        for one in "${!kinds[@]}"; do words+="${words:+, }${kinds[$one]} x ${one#x}"; done
    fi
    words=${words//[^a-zA-Z0-9 .,:;=_\/+-]/?}
    [ $tries != 0 ] || { blocked=false words='the probe tried nothing'; }
    printf '\n{"blocked": %s, "detail": "%s"}\n' $blocked "${words:0:1500}"
}
no='[Rr]ead-only file system|not permitted|[Dd]enied|must be (run as )?(root|superuser)|Only root|permission'
gone='No such file or directory'
"""


def compose_bash(program: str, promised: Mapping[str, int]) -> str:
    """The whole program. In a subshell: a sandbox may run several of them."""
    constants = "\n".join(f"{name}={value}" for name, value in promised.items())
    return f"(\n{BASH_PRELUDE}\n{constants}\n{program}\nverdict\n)\n"
