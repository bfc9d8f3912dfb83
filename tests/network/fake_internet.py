"""Programs run by tests as root, in fresh mount and network namespaces: a machine beside an internet of its own.

A veth pair leads into another namespace, where servers listen at public addresses; for `example.org` with TLS as well,
under an authority that sessions trust. Names are what a hosts file says. As a program itself, this one fetches what is
allowed and what is not. What came of everything is printed as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any

import pytest

import moonpool
from network.sites import authority
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Generator

OWN_PROGRAM = Path(__file__)
NEEDS_NAMESPACES = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip"), reason="namespaces and addresses need root and iproute2"
)
PAGE = "<h1>Example Domain</h1>"

WWW, MOVED, OWN = "93.184.215.14", "93.184.215.15", "93.184.215.1"
HOSTS = f"""
127.0.0.1 localhost loopback.example.com
{WWW} www.example.com example.org
{MOVED} other.example.com
{OWN} own.example.com
10.9.9.9 private.example.com
169.254.169.254 metadata.example.com
64:ff9b::a09:909 nat.example.com
"""
CODE = """
import json, urllib.error, urllib.request
def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except urllib.error.URLError as error:
        return str(getattr(error, "reason", error))
{url: fetch(url) for url in URLS}
"""
URLS = [
    "http://www.example.com/hello",
    "http://www.example.com/to-private",
    "http://www.example.com/to-unlisted",
    "http://private.example.com/",
    "http://loopback.example.com/",
    "http://metadata.example.com/",
    "http://own.example.com/",
    "http://nat.example.com/",
    "http://10.9.9.9/",
    "http://unlisted.example.org/",
]


class Pages(BaseHTTPRequestHandler):
    """Greets, or sends elsewhere."""

    def do_GET(self) -> None:
        target = {"/to-private": "http://10.9.9.9/", "/to-unlisted": "http://unlisted.example.org/"}.get(self.path)
        if self.headers.get("Host", "").startswith("10.") or self.client_address[0].startswith("127."):
            raise AssertionError("it was reached")
        self.send_response(302 if target else 200)
        if target:
            self.send_header("Location", target)
        body = b"" if target else PAGE.encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: stdout is the answer."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL)


def serve_in_its_own_namespace(folder: Path) -> None:
    """The other end of the veth pair: the internet, and a private network behind the same router."""
    wait_until(lambda: " far:" in Path("/proc/net/dev").read_text(encoding="ascii"), within_s=30)
    for address in (WWW, MOVED, "10.9.9.9", "169.254.169.254"):
        ip("addr", "add", f"{address}/8" if address == WWW else f"{address}/32", "dev", "far")
    ip("link", "set", "lo", "up")
    ip("link", "set", "far", "up")
    plain, secure = ThreadingTCPServer(("", 80), Pages), ThreadingTCPServer(("", 443), Pages)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    threading.Thread(target=secure.serve_forever, daemon=True).start()
    (folder / "ready").touch()
    plain.serve_forever()


def network_of(process: int | str) -> str:
    return str(Path(f"/proc/{process}/ns/net").readlink())


@contextmanager
def beside_an_internet(folder: Path) -> Generator[None]:
    """Make it around this process, which is in new namespaces; sessions trust the authority of `example.org`."""
    hosts, trusted = folder / "hosts", folder / "ca.pem"
    hosts.write_text(HOSTS, encoding="ascii")
    trusted.write_bytes(authority(folder, "example.org")[0])
    os.environ["MOONPOOL_NETWORK_CA_FILE"] = str(trusted)
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)
    ip("link", "set", "lo", "up")
    far = subprocess.Popen(["unshare", "--net", "--", sys.executable, str(OWN_PROGRAM), "far", str(folder)])
    try:
        wait_until(lambda: network_of(far.pid) != network_of("self"), within_s=30)
        ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(far.pid))
        ip("addr", "add", f"{OWN}/8", "dev", "near")
        ip("link", "set", "near", "up")
        ip("route", "add", "default", "via", WWW)
        wait_until((folder / "ready").exists, within_s=30)
        own = ThreadingTCPServer(("", 80), Pages)  # a service of this machine
        threading.Thread(target=own.serve_forever, daemon=True).start()
        yield
    finally:
        far.kill()
        far.wait()


def printed_by(program: Path, folder: Path, data: Path) -> Any:
    """What a program prints that is run with `folder` in new namespaces."""
    command = ["unshare", "--net", "--mount", "--", sys.executable, str(program), str(folder)]
    variables = {**os.environ, "MOONPOOL_DATA_DIR": str(data), "PYTHONPATH": str(OWN_PROGRAM.parents[1])}
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, encoding="utf-8", timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main(folder: Path) -> None:
    with beside_an_internet(folder), moonpool.sync.session(network=["*.example.com"]) as session:
        result = session.run(f"URLS = {URLS!r}\n{CODE}")
    sys.stdout.write(json.dumps({"data": result.data, "error": str(result.error or "")}))


if __name__ == "__main__":
    if sys.argv[1] == "far":
        serve_in_its_own_namespace(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]))
