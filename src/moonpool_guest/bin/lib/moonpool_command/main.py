"""Parse, do one thing, print, exit code.

Exit codes: 0 it worked, 1 the tool failed, 2 the command line is wrong, 3 not possible here.
"""

from __future__ import annotations

import signal
import sys

from .outcomes import FailedError, ImpossibleError, InstallError, UsageError

USAGE = """\
usage: moonpool call [--raw] SERVER.TOOL [ARGUMENTS]
       moonpool tools [SERVER | SERVER.TOOL]
       moonpool search QUESTION...

call    Call a tool and print its data as one line of JSON. ARGUMENTS is a JSON object, @FILE that holds one, or - for
        standard input; without it the tool gets {}. --raw prints the server's whole answer instead of its data.
tools   List the tools, those of one server, or describe one.
search  Find tools by words, best first; several questions are answered in turn.

Exit codes: 0 it worked; 1 the tool failed (its error is a line of JSON on stderr); 2 the command line is wrong;
3 not possible here. `call` works while Bash or Node code runs; Python code imports `servers.<module>` instead.
"""


def main(words: list[str]) -> int:
    """Run the command line `words` and return the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as in a job of a shell
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        _write(1, _run(words))
    except UsageError as error:
        _write(2, f"moonpool: {error}\n")
        return 2
    except FailedError as error:
        _write(2, f"{error}\n")
        return 1
    except ImpossibleError as error:
        _write(2, f"moonpool: {error}\n")
        return 3
    except InstallError as error:
        _write(2, f"pip: {error}\n")
        return 1
    return 0


def _run(words: list[str]) -> str:
    if not words or words[0] in ("-h", "--help", "help"):
        return USAGE
    command, *rest = words
    if command == "pip" and rest:  # by `thread/pip`
        from .installing import pip

        return pip(rest[0], rest[1:])
    if "--help" in rest[:1] or "-h" in rest[:1]:
        return USAGE
    if command == "call":
        from .calling import call

        return call(rest)
    if command == "tools":
        from .listing import tools

        return tools(rest)
    if command == "search":
        from .listing import search

        return search(rest)
    raise UsageError(f"there is no command {command!r}; there are `call`, `tools` and `search`, see `moonpool --help`")


def _write(fd: int, text: str) -> None:
    stream = sys.stdout if fd == 1 else sys.stderr
    stream.buffer.write(text.encode("utf-8", "backslashreplace"))
    stream.flush()
