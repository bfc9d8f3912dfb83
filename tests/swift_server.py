"""A real object store that speaks S3's protocol, for tests (OpenStack Swift): a process on loopback that ends with the
one that asked for it. It checks signatures, which moto does not, and starts in seconds, so what asks for it is slow.

A test asks for `swift_bucket`: the address of an empty bucket of its own.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx2
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from installs import python_environment
from run_folder import run_folder

if TYPE_CHECKING:
    from collections.abc import Generator

SWIFT_CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "test:tester", "AWS_SECRET_ACCESS_KEY": "testing"}
_PROGRAM: Final = Path(__file__).with_name("swift_program.py")
_START_S: Final = 60.0
_END_S: Final = 20.0
_ANSWER_S: Final = 10.0
_NUMBERS: Final = count(1)


@dataclass(frozen=True)
class SwiftServer:
    endpoint: str

    def new_bucket(self) -> str:
        """The URL of an empty bucket, as the setting `files_url` has it."""
        name = f"files-{next(_NUMBERS)}"
        request = AWSRequest("PUT", f"{self.endpoint}/{name}")
        S3SigV4Auth(Credentials(*SWIFT_CREDENTIALS.values()), "s3", "us-east-1").add_auth(request)
        httpx2.put(f"{self.endpoint}/{name}", headers=dict(request.headers), timeout=_ANSWER_S).raise_for_status()
        return f"s3://{name}/moonpool?endpoint={self.endpoint}"


@pytest.fixture(scope="session")
def swift_server() -> Generator[SwiftServer]:
    python = python_environment("swift") / "python"
    with tempfile.TemporaryDirectory(prefix="swift-", dir=_with_attributes()) as folder:
        command = [python, _PROGRAM, folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
            try:
                yield SwiftServer(f"http://127.0.0.1:{_port(process)}")
                process.communicate("", timeout=_END_S)  # it ends at the end of its input
            finally:
                process.kill()


@pytest.fixture
def swift_bucket(swift_server: SwiftServer) -> str:
    return swift_server.new_bucket()


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], _START_S)
    line = process.stdout.readline().strip() if readable else ""
    assert line, f"Swift did not start within {_START_S:g} s; what it said is above"
    return int(line)


def _with_attributes() -> Path:
    """A folder whose file system keeps what Swift notes about each object."""
    for folder in (run_folder(), Path("/dev/shm"), Path(tempfile.gettempdir())):
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            try:
                os.setxattr(probe.name, "user.swift.metadata", b"x" * 1024)
            except OSError:
                continue
        return folder
    pytest.fail("no folder for Swift keeps extended attributes; point TMPDIR to a file system that has them")
