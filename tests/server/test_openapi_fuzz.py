"""Requests that schemathesis makes of the service's own OpenAPI document, valid, broken and in sequences."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from cli.console import moonpool
from installs import python_environment
from server.test_serve_command import Serving

if TYPE_CHECKING:
    from pathlib import Path

LEFT_OUT = (
    "positive_data_acceptance",  # what no schema says is refused with 400: packages that do not exist, no checkpoints
    "ignored_auth",  # after three wrong credentials nobody of this address is let in: test_admission_limit
)


@pytest.mark.slow
@pytest.mark.claim("C-WEB-3")
@pytest.mark.req("B-079", "C-024", "G-017")
def test_answers_are_as_the_document_says_whatever_is_sent(tmp_path: Path) -> None:
    scopes = [word for scope in ("execute", "files", "approve", "admin") for word in ("--scope", scope)]
    made = moonpool(tmp_path, "keys", "create", "--data-dir", tmp_path, "--org", "acme", "--json", *scopes)
    key = json.loads(made.stdout)["key"]
    with Serving(tmp_path, "--data-dir", str(tmp_path), "--env", "base", keys=True) as serving:
        options = {
            "--header": f"Authorization: Bearer {key}",
            "--exclude-checks": ",".join(LEFT_OUT),
            "--exclude-operation-id": "addServer",  # what is added is looked for on the internet
            "--generation-with-security-parameters": "false",
            "--phases": "examples,coverage,fuzzing,stateful",
            "--seed": "1",
            "--max-examples": "2",
            "--max-time": "8",
            "--request-timeout": "30",
            "--warnings": "off",
            "--generation-database": "none",
        }
        document = serving.url.removesuffix("/mcp") + "/v1/openapi.json"
        command = [python_environment("schemathesis") / "schemathesis", "run", document, "--no-color", "--no-shrink"]
        done = subprocess.run(
            [*command, *(word for option in options.items() for word in option)],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
            cwd=tmp_path,
        )
        said = "".join(serving.said)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    assert "bug" not in said, said
