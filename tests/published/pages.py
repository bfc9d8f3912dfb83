"""A few web pages on the loopback interface, and what a robot may read of them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_TEXT = "It has no air. " * 30


def _article(text: str) -> tuple[str, str]:
    padding = "It rained all day. " * 30  # less is taken for no article
    return "text/html", f"<html><body><article><h1>News</h1><p>{text} {padding}</p></article></body></html>"


_PAGES = {
    "/robots.txt": ("text/plain", "User-agent: *\nDisallow: /private\n"),
    "/page": (
        "text/html",
        f"<html><body><article><h1>Moon</h1><p>{_TEXT}</p></article></body></html>",
    ),
    "/private": ("text/plain", "not for robots"),
    "/news": (
        "text/html",
        '<html><body><ul><li><a href="/news/first">One</a></li><li><a href="/news/second">Two</a></li>'
        '<li><a href="/news/third">Three</a></li></ul></body></html>',
    ),
    "/news/first": _article("The Moon has a moon base, and the moon has no air."),
    "/news/second": _article("A Moon like no other."),
    "/news/third": _article("Nothing about it here, and moonlight does not count."),
}


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, text = _PAGES.get(self.path, ("text/plain", ""))
        self.send_response(200 if text else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


@contextmanager
def open_pages() -> Generator[str]:
    """Yield the address they start with."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
