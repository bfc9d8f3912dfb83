"""What a command imports: modules are counted, not milliseconds, so that starting does not get slow bit by bit."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cli.console import environment, moonpool, raw_server, run_code, write_config
from moonpool.cli.importing import no_collection

if TYPE_CHECKING:
    from pathlib import Path

_OURS = ("moonpool", "moonpool_wire", "moonpool_guest")
_OF_THE_INTERPRETER = ("__main__", "_distutils_hack", "__editable__", "_sysconfigdata", "_virtualenv", "sitecustomize")
OF_HELP = {"moonpool.cli", "moonpool.core", "moonpool.core.version"} | {
    f"moonpool.cli.{name}"
    for name in ("commands", "exit_codes", "importing", "main", "private_memory", "standard_streams")
}
HEAVY_OF_PYTHON = ("asyncio", "sqlite3", "ssl", "email", "http", "tomllib", "logging")
"""Modules of Python's own that take several milliseconds each."""

OF_A_RUN = {"anyio", "jsonschema_rs", "msgspec", "re2", "typing_extensions"}
NOT_OF_A_RUN = (
    "moonpool.bootstrap.logins",  # with OAuth and its cryptography: for servers with a URL
    "moonpool.bootstrap.models",  # with `embeddings`: for vector search
    "moonpool.bootstrap.replays",
    "moonpool.pipeline.call_examples",  # with `wrappers`: for wrong arguments
    "moonpool.oauth.grants",
    "moonpool.configuration.policy_file",  # with a reader of TOML: for a policy file
    "moonpool.upstreams.dispatcher",  # with the MCP SDK: for servers that are called
    "moonpool.catalog",
    "moonpool.embeddings",
    "moonpool.server",
    "moonpool.doctor.service",
    "moonpool.features.preview.service",
    "moonpool.features.receipts.service",
    "moonpool.replay.service",
    "moonpool.cli.session_run",
    "moonpool.features.usage.statistics",
    "moonpool.store.secrets",
    "moonpool.features.receipts.signing_keys",
    "moonpool.wrappers",
    "moonpool.tracing.adapter",  # with OpenTelemetry: for traces
    "moonpool.tracing.exporter",
)


def _imported(home: Path, *arguments: str) -> set[str]:
    """The modules that a process, really started, has imported when the command ends."""
    code = f"""
import json, sys
sys.argv = ["moonpool", *{arguments!r}]
import moonpool.cli.main
try:
    moonpool.cli.main.main()
finally:
    print(json.dumps(sorted(set(sys.modules))), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        cwd=home,
        env=environment(home),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1])) - {"json"}


def _foreign(modules: set[str]) -> set[str]:
    """Packages that are neither ours nor Python's."""
    roots = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - set(_OURS)
    return {name for name in roots if not name.startswith(_OF_THE_INTERPRETER)}


def test_help_imports_no_command(tmp_path: Path) -> None:
    modules = _imported(tmp_path, "--help")
    assert _foreign(modules) == {"click"}
    assert {name for name in modules if name.startswith("moonpool.")} == OF_HELP
    assert modules.isdisjoint(HEAVY_OF_PYTHON)


def test_a_run_that_calls_no_tool_imports_what_one_run_needs(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"srv": raw_server("good")})
    run_code(tmp_path, "result = 1", "--config", config)  # fills the cache of tool lists
    modules = _imported(tmp_path, "run", "-c", "result = 1", "--config", str(config))
    assert _foreign(modules) == {"click"} | OF_A_RUN
    loaded = [one for one in NOT_OF_A_RUN if any(name == one or name.startswith(f"{one}.") for name in modules)]
    assert loaded == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(("--timeout", "soon"), "not a valid float", id="a number"),
        pytest.param(("--approve", "perhaps"), "perhaps", id="a choice"),
    ],
)
def test_values_that_need_conversion_are_still_converted(tmp_path: Path, given: tuple[str, str], said: str) -> None:
    ended = moonpool(tmp_path, "run", "-c", "1", *given)
    assert (ended.exit_code, ended.stdout) == (2, b"")
    assert f"invalid value for '{given[0]}'" in ended.stderr
    assert said in ended.stderr


def test_nothing_is_collected_while_an_application_is_imported() -> None:
    assert gc.isenabled()
    with no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.unfreeze()
