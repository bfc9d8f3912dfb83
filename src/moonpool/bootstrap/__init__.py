"""Composition root: from settings and a server configuration to a running application. Nothing else names adapters.

`engine` is what a process shares, `tenant` what one tenant owns; `tools` the upstream side, `sandboxes` the other
side, `programs` what the host has of other languages, `models` what vector search needs, `token_counts` what showing
tools costs, `caller_grants` what a caller of this process may do, `recordings` and `replays` what is kept of
executions and done with it, `folders` where things lie.
"""

from moonpool.bootstrap.caller_grants import local_principal
from moonpool.bootstrap.engine import Engine, open_engine
from moonpool.bootstrap.folders import data_folder, sandbox_uid
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
