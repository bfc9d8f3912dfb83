"""Tests here run the host's event loop; whatever blocks it is a failure of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from blockbuster import blockbuster_ctx

if TYPE_CHECKING:
    from collections.abc import Iterator

# A few look-ups and folders on a local disk, 20 us each: a worker thread would cost more than it saves.
_BRIEF = {
    "moonpool/engine/run_folder.py": {"run_folder", "_remove_abandoned"},  # once, at start and end
    "moonpool/store/process_marks.py": {"own_mark"},  # two small files of /proc, once
    "moonpool/sandboxes/process.py": {"write_etc", "find_launcher", "has_merged_usr", "filter_fd"},
    "moonpool/sandboxes/host_requirements.py": {"missing_on_host"},
    "moonpool/sandboxes/leftovers.py": {
        "outer_sandboxes_naming",
        "end_outer_sandboxes_naming",
        "_place",
        "_read",
    },  # once, at start
    "moonpool/net/trust.py": {"system_trust"},
    "moonpool/sandboxes/slots.py": {"__init__", "create", "_reuse", "_keep", "_unlink_soon"},
    "moonpool/sandboxes/identity.py": {"slice_for", "_lock"},  # two system calls on a tmpfs
    "moonpool/sandboxes/zygote.py": {"_start", "_greet", "_write_maps"},  # once per zygote
    "moonpool/sandboxes/zygote_process.py": {"close"},
    "moonpool/sandboxes/bubblewrap.py": {"_start"},
    "moonpool/sandboxes/short_work.py": {"now"},  # 0.2 ms; it goes to a thread once it was not
    "moonpool/environments/guest.py": {"publish_guest", "_read_sources", "_package_folder"},
    "moonpool/store/journal.py": {"_commit_soon"},  # into the page cache, 70 us; the module says what bounds it
    "moonpool/store/postgres_connections.py": {"open_connection"},  # asyncpg looks for ~/.pgpass and certificates
    "moonpool/features/approvals/table.py": {"is_unused"},  # one look-up before a question, where most have no file
    "moonpool/features/library/table.py": {"_state_of"},  # three look-ups before an execution, 5 us
    "moonpool/engine/artifacts.py": {"_free"},  # one look-up beside each such write, 2 us
    "moonpool/engine/output.py": {"_keep", "finish"},  # writes to the page cache, bounded by the artifact's limit
}


@pytest.fixture(autouse=True)
def blocking_calls_fail() -> Iterator[None]:
    """A blocking call on the loop, made by our own code, raises."""
    with blockbuster_ctx(scanned_modules=["moonpool"]) as watch:
        for function in watch.functions.values():
            for filename, names in _BRIEF.items():
                function.can_block_in(filename, names)
            # A module that a thread imports at this moment; once in a process.
            function.can_block_in("<frozen importlib._bootstrap>", {"acquire", "_find_and_load"})
        yield
