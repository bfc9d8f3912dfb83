"""Composition root: builds the application from settings and a server configuration. Only this package names adapters.

`engine` is what a process shares, `tenant` what one tenant owns. `tools` builds upstreams and the tool registry,
`sandboxes` the backend and pool, `programs` runtimes of other languages, `models` vector search, `token_counts` the
token accounting, `caller_grants` the grants of callers, `recordings` and `replays` what their names say; `folders`
knows the paths.
"""

from moonpool.bootstrap.caller_grants import local_principal
from moonpool.bootstrap.engine import Engine, open_engine
from moonpool.bootstrap.folders import data_folder, host_folders, sandbox_uid
from moonpool.bootstrap.programs import find_runtimes
from moonpool.bootstrap.recordings import open_recordings
from moonpool.bootstrap.sandboxes import BACKENDS, assemble_backend, image_spec
from moonpool.bootstrap.tenant import Tenant, open_default_tenant, open_tenant
from moonpool.bootstrap.token_counts import make_token_accounting
from moonpool.bootstrap.tools import assemble_tools, make_learned_types, make_redactor

__all__ = [
    "BACKENDS",
    "Engine",
    "Tenant",
    "assemble_backend",
    "assemble_tools",
    "data_folder",
    "find_runtimes",
    "host_folders",
    "image_spec",
    "local_principal",
    "make_learned_types",
    "make_redactor",
    "make_token_accounting",
    "open_default_tenant",
    "open_engine",
    "open_recordings",
    "open_tenant",
    "sandbox_uid",
]
