"""Before files are taken out of a sandbox: what code left running ends, and what it wrote reaches its files."""

import gc
import io
import os
import signal
import stat

from moonpool_guest.files.refusals import RefusedError

_WRITERS = (io.TextIOWrapper, io.BufferedRandom, io.BufferedWriter)  # a text's own buffer first


def end_others() -> None:
    """End every process of the sandbox but this one, and wait until they are gone. Raises RefusedError."""
    if os.getpid() != 1:
        raise RefusedError("failed", "the code has children that cannot be ended from here")
    try:
        os.kill(-1, signal.SIGKILL)  # all at once: none is forked meanwhile
    except ProcessLookupError:
        pass
    while True:
        try:
            os.waitpid(-1, 0)  # orphans are ours
        except ChildProcessError:
            return


def flush_open_files() -> None:
    """Write out what open files of Python hold in memory, as the end of a program would. Pipes are left alone."""
    writers = [one for one in gc.get_objects() if type(one) in _WRITERS]
    for kind in _WRITERS:
        for one in writers:
            try:
                if type(one) is kind and not one.closed and stat.S_ISREG(os.fstat(one.fileno()).st_mode):
                    one.flush()
            except (OSError, ValueError):
                pass  # a full disk, or it was closed meanwhile
