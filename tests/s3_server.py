"""A server of S3's protocol for tests (moto), a process on loopback that ends with the one that asked for it.

A test asks for `s3_bucket`: the address of an empty bucket of its own. As a program this file is the server.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

import httpx2
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
_NUMBERS = count(1)


@dataclass(frozen=True)
class S3Server:
    endpoint: str
    process: subprocess.Popen[str]

    def new_bucket(self) -> str:
        """The URL of an empty bucket, as the setting `files_url` has it."""
        name = f"files-{next(_NUMBERS)}"
        httpx2.put(f"{self.endpoint}/{name}", timeout=30).raise_for_status()
        return f"s3://{name}/moonpool?endpoint={self.endpoint}"

    def remove_bucket(self, url: str) -> None:
        """An empty one of `new_bucket`."""
        name = url.removeprefix("s3://").partition("/")[0]
        httpx2.delete(f"{self.endpoint}/{name}", timeout=30).raise_for_status()


@pytest.fixture(scope="session")
def s3_server() -> Generator[S3Server]:
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the server of S3's protocol did not start"
        yield S3Server(f"http://127.0.0.1:{port}", process)
        process.communicate("")  # it ends at the end of its input


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> str:
    return s3_server.new_bucket()


def main() -> None:
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)  # noqa: T201
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
