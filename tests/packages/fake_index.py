"""Wheels that a test makes, and an index of them on this machine (PEP 503)."""

from __future__ import annotations

import hashlib
import html
import stat
import threading
import zipfile
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    Extra = Callable[[zipfile.ZipFile], None]


def write_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, str] | None = None,
    requires: Sequence[str] = (),
    *,
    says: str = "",
    info: str = "",
    record: str = "",
    tag: str = "py3-none-any",
    extra: Extra | None = None,
) -> Path:
    """A wheel in `folder`. `says`: what it calls itself; `info` names its folder of metadata, `tag` what it is for;
    `extra` adds entries that no honest tool would write.
    """
    info = info or f"{name}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {one}\n" for one in requires)
    needed += "Provides-Extra: more\n" if "extra == 'more'" in needed else ""
    members = {
        **({f"{name}.py": f"version = {version!r}\n"} if files is None else files),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {says or name}\nVersion: {version}\n{needed}\nabout\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": record,
    }
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        if extra is not None:
            extra(archive)
    return path


def link(name: str, target: str) -> Extra:
    """An entry that is a symbolic link."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return lambda archive: archive.writestr(entry, target)


class Index:
    """A package index in a folder."""

    def __init__(self, folder: Path) -> None:
        self._simple = folder / "simple"
        self._marks: dict[str, str] = {}
        self._digests: dict[str, str] = {}

    def add(
        self,
        name: str,
        version: str = "1.0",
        *,
        yanked: bool = False,
        python: str = "",
        digest: str | None = None,
        **options: object,
    ) -> None:
        """`python`: the versions that it is for. `digest` is given instead of its own, none if empty."""
        folder = self._simple / name
        folder.mkdir(parents=True, exist_ok=True)
        path = write_wheel(folder, name, version, **options)  # pyright: ignore[reportArgumentType]
        if yanked:
            self._marks[path.name] = ' data-yanked="broken"'
        elif python:
            self._marks[path.name] = f' data-requires-python="{html.escape(python)}"'
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if digest is None else digest
        self._digests[path.name] = f"#sha256={digest}" if digest else ""
        self._list(folder)

    def add_source(self, name: str) -> None:
        """A package without any wheel."""
        folder = self._simple / name
        folder.mkdir(parents=True)
        (folder / f"{name}-1.0.tar.gz").write_bytes(b"never read")
        self._list(folder)

    def _list(self, folder: Path) -> None:
        names = sorted(path.name for path in folder.iterdir() if path.suffix != ".html")
        lines = "".join(
            f'<a href="{name}{self._digests.get(name, "")}"{self._marks.get(name, "")}>{name}</a>\n' for name in names
        )
        (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{lines}</body></html>", encoding="utf-8")

    @contextmanager
    def served(
        self, tls: ssl.SSLContext | None = None, wanted: str = "", *, silent: str = ""
    ) -> Generator[tuple[str, list[str]]]:
        """Its address, and the requests that came. `wanted`: the `Authorization` without which it refuses them.

        A request for an address with `silent` in it is never answered.
        """
        requests: list[str] = []
        over = threading.Event()

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name it has there
                requests.append(format % args)

            def send_head(self) -> Any:
                if wanted and self.headers.get("Authorization") != wanted:
                    return self.send_error(401)
                if silent and silent in self.path:
                    requests.append(self.path)
                    over.wait()
                    return None
                return super().send_head()

        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(self._simple.parent)))
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            place = "http://127.0.0.1" if tls is None else "https://localhost"
            yield f"{place}:{server.server_address[1]}/simple", requests
        finally:
            over.set()
            server.shutdown()
            thread.join()
            server.server_close()
