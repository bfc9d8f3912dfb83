"""Run by `test_fake_internet`, as root in fresh mount and network namespaces: a machine beside an internet of its own.

A veth pair leads into another namespace, where servers listen at public addresses. Names are what the first argument, a
hosts file, says. What came of everything is printed as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer

import moonpool
from waiting import wait_until

WWW, MOVED, OWN = "93.184.215.14", "93.184.215.15", "93.184.215.1"
HOSTS = f"""
127.0.0.1 localhost loopback.example.com
{WWW} www.example.com
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
        body = b"" if target else b"hello"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: stdout is the answer."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL)


def serve_in_its_own_namespace(ready: Path) -> None:
    """The other end of the veth pair: the internet, and a private network behind the same router."""
    wait_until(lambda: " far:" in Path("/proc/net/dev").read_text(encoding="ascii"), within_s=30)
    for address in (WWW, MOVED, "10.9.9.9", "169.254.169.254"):
        ip("addr", "add", f"{address}/8" if address == WWW else f"{address}/32", "dev", "far")
    ip("link", "set", "lo", "up")
    ip("link", "set", "far", "up")
    server = ThreadingTCPServer(("", 80), Pages)
    ready.touch()
    server.serve_forever()


def network_of(process: int | str) -> str:
    return str(Path(f"/proc/{process}/ns/net").readlink())


def main(folder: Path) -> None:
    hosts, ready = folder / "hosts", folder / "ready"
    hosts.write_text(HOSTS, encoding="ascii")
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)
    ip("link", "set", "lo", "up")
    far = subprocess.Popen(["unshare", "--net", "--", sys.executable, __file__, "far", str(ready)])
    try:
        wait_until(lambda: network_of(far.pid) != network_of("self"), within_s=30)
        ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(far.pid))
        ip("addr", "add", f"{OWN}/8", "dev", "near")
        ip("link", "set", "near", "up")
        ip("route", "add", "default", "via", WWW)
        wait_until(ready.exists, within_s=30)
        own = ThreadingTCPServer(("", 80), Pages)  # a service of this machine
        threading.Thread(target=own.serve_forever, daemon=True).start()
        with moonpool.sync.session(network=["*.example.com"]) as session:
            result = session.run(f"URLS = {URLS!r}\n{CODE}")
        sys.stdout.write(json.dumps({"data": result.data, "error": str(result.error or "")}))
    finally:
        far.kill()
        far.wait()


if __name__ == "__main__":
    if sys.argv[1] == "far":
        serve_in_its_own_namespace(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]))
