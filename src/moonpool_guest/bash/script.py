"""What PID 1 writes on the script that bash reads, line by line. Pure text.

Bash runs a script that never ends: the read end of a pipe. Each execution is one line on it, and the code comes on a
second pipe, which that line sources. So code stands neither in a function nor in a loop, `declare`, `local` and `break`
mean what they mean in a script, and lines are counted from one. Reports go back on a third pipe (`reports`).

Sourced code can be left from anywhere by `return`, which is how an interrupt works without ending bash: the INT trap
returns, and a DEBUG trap that it sets returns again from each function that is left, until the code is over.

`!` before the source keeps its status from running an ERR trap of the code a second time; it would switch `set -e` off
inside, but only where it is on already, and then it is left out.
"""

from dataclasses import dataclass

from moonpool_guest.python.environment import Variables

_TOP = "((${#BASH_SOURCE[@]}<2))"
_LEAVE_ALL = f"{{ if {_TOP}; then trap - DEBUG; else return 0; fi; }} 2>/dev/null"


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Numbers that bash has its own pipes under: out of the way of what scripts use (3 to 9, 10 upwards, 200)."""

    code: int
    report: int
    script: int
    stdout: int
    stderr: int

    @classmethod
    def below(cls, limit: int) -> "Descriptors":
        """The highest ones that a limit on open files allows, but for bash's own, which is 255 at most."""
        first = min(limit, 256) - 8
        return cls(first, first + 1, first + 2, first + 3, first + 4)


class Script:
    """Makes the lines for one bash. Each ends in a newline."""

    def __init__(self, fds: Descriptors, leave_path: str) -> None:
        self._fds = fds
        self._leave = leave_path

    @property
    def path(self) -> str:
        """The script that bash is started with."""
        return f"/dev/fd/{self._fds.script}"

    def opening(self) -> str:
        """Set what code starts with. `$0` is the name that messages begin with, as in any script."""
        report = f">&{self._fds.report}"
        failed = f'case $- in *e*) builtin printf \'F%d %d %s\\0\' "$?" "$LINENO" "$BASH_COMMAND" {report};; esac'
        return (
            f"exec {self._fds.script}<&-; BASH_ARGV0=/dev/fd/{self._fds.code}; "
            f"{self._arm()}; {_trap('ERR', failed)}; {_trap('EXIT', f'. {self._leave} {report}')}\n"
        )

    def restore(self, number: int) -> str:
        """Take over what the last bash of this session had."""
        return f". /dev/fd/{self._fds.code} </dev/null >/dev/null 2>&1; {self._report(number)}\n"

    def execute(self, number: int, flags: str, *, interrupted: bool, final: bool) -> str:
        """Run the code on the code pipe and report the end under `number`.

        `flags` is what `$-` was at the end of the last code, and `interrupted` whether our INT trap ended it: bash then
        still waits for SIGINT as it does while a child runs.
        """
        fds = self._fds
        before = f"{self._arm()}; " if interrupted else ""
        if final:  # no state is wanted; how it ends is
            before += _trap("EXIT", f"builtin printf 'X%d\\0' \"$?\" >&{fds.report}") + "; "
        if "v" in flags:
            before += "builtin set -v; "
        inverted = "" if "e" in flags else "! "
        source = f". /dev/fd/{fds.code} </dev/null >&{fds.stdout} 2>&{fds.stderr}"
        return f"{before}{inverted}{source}; {self._report(number)}\n"

    def code(self, source: bytes, flags: str) -> bytes:
        """What goes on the code pipe. `set -x` is put on here, where it does not show the line above."""
        return b"builtin set -x; " + source if "x" in flags else source

    def leave(self, status: int) -> str:
        """End as a script ends, which runs the code's EXIT trap."""
        return f"builtin exit {status}\n"

    def _arm(self) -> str:
        told = f"builtin printf 'I\\0' >&{self._fds.report}"
        return _trap("INT", f"if ! {_TOP}; then {told}; trap {_quoted(_LEAVE_ALL)} DEBUG; return 0; fi")

    def _report(self, number: int) -> str:
        """Report, and put off what would show the next line. Whoever closed the descriptor has no bash any more."""
        text = f'builtin printf \'D%d %d %s\\0\' {number} "${{PIPESTATUS[0]}}" "$-" >&{self._fds.report}'
        return f"{{ {text} || builtin exit 70; builtin set +xv; }} 2>/dev/null"


def setting(variables: Variables) -> bytes:
    """Code that gives bash an execution's variables; bash may have been there before."""
    lines = [f"builtin export {name}={_quoted(value)}" for name, value in variables.wanted.items()]
    if variables.home:
        lines.append(f"builtin cd -- {_quoted(variables.home)}")
    return "\n".join(lines).encode()


def putting_back(variables: Variables) -> bytes:
    """Code that takes them away again."""
    return "\n".join(
        f"builtin unset -v {name}" if before is None else f"builtin export {name}={_quoted(before)}"
        for name, before in variables.before.items()
    ).encode()


def _trap(event: str, commands: str) -> str:
    """Silent, also under `set -x`."""
    return f"trap {_quoted(f'{{ {commands}; }} 2>/dev/null')} {event}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
