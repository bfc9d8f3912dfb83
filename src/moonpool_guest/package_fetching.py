"""Resolves and downloads packages, in a sandbox that does nothing else: it never sees a session's code or data.

uv resolves against the index that the host names; nothing of a package is unpacked or run here. The host gives the
packages that are there already, so that uv keeps them: those of the environment as they are, those of the session.

SECURITY: what this returns is hostile to the host like everything that comes out of a sandbox.
"""

import json
import os
import subprocess
import sys
import tomllib
import urllib.request
from importlib import metadata
from typing import Any, cast
from urllib.parse import quote, unquote, urlsplit

PLACE = "/workspace/packages"
_TARGET, _WHEELS = f"{PLACE}/target", f"{PLACE}/wheels"
_TEXT_CHARS_MAX = 20_000
_CHUNK_BYTES = 1 << 20
_SOURCE = ["--only-binary", ":all:", "--no-config", "--no-progress", "--color", "never"]


def read(text: str) -> "dict[str, Any]":
    """An order, from JSON."""
    return cast("dict[str, Any]", json.loads(text))


def resolve(order: "dict[str, Any]") -> "dict[str, Any]":
    """Say which wheels the requirements need besides those that are there: `{"wheels": [...]}`, or `{"said": text}`.

    `order`: `uv` (path), `index` (options of uv), `variables`, `requirements`, `installed` (metadata texts by
    name and version), `paths` (folders of the environment's packages).
    """
    there = _lay_out(order["installed"], order["paths"])
    target = ["--python", sys.executable, "--target", _TARGET]
    files = ["--requirements", _write("requirements.txt", order["requirements"])]
    if there:
        files += ["--constraints", _write("constraints.txt", there)]
    code, said = _uv(order, "pip", "install", "--dry-run", *target, *files)
    if code or "is yanked" in said:
        return {"said": said}
    pins = [line[3:] for line in said.splitlines() if line.startswith(" + ")]
    if not pins:
        return {"wheels": []}
    lock = f"{PLACE}/pylock.toml"
    form = ["--format", "pylock.toml", "--output-file", lock, "--no-deps", "--python", sys.executable]
    code, said = _uv(order, "pip", "compile", _write("pins.txt", pins), *form)
    if code:
        return {"said": said}
    with open(lock, "rb") as file:
        packages = tomllib.load(file).get("packages", [])
    return {"wheels": [_wheel(package) for package in packages]}


def _lay_out(installed: "list[list[str]]", paths: "list[str]") -> "list[str]":
    """Let uv find what is there already, and return the environment's packages as pins: nothing may replace them."""
    pins: list[str] = []
    os.makedirs(_TARGET)
    os.makedirs(_WHEELS)
    for found in metadata.distributions(path=paths):
        name, version = found.metadata["Name"], found.version
        _lay_out_one(name, version, found.read_text("METADATA") or "")
        pins.append(f"{name}=={version}")
    for name, version, text in installed:
        _lay_out_one(name, version, text)
    return pins


def _lay_out_one(name: str, version: str, text: str) -> None:
    folder = f"{_TARGET}/{name.replace('-', '_')}-{version}.dist-info"
    os.makedirs(folder, exist_ok=True)
    for file, content in (("METADATA", text), ("RECORD", ""), ("INSTALLER", "moonpool")):
        with open(f"{folder}/{file}", "w", encoding="utf-8", errors="replace") as written:
            written.write(content)


def _wheel(package: "dict[str, Any]") -> "dict[str, Any]":
    wheels = cast("list[dict[str, Any]]", package.get("wheels") or [{}])
    wheel = wheels[0]
    url = wheel.get("url") or "file://" + quote(os.path.normpath(f"{PLACE}/{wheel.get('path', '')}"))
    digest = wheel.get("hashes", {}).get("sha256", "")
    return {"name": package["name"], "version": package["version"], "url": url, "sha256": digest}


def download(order: "dict[str, Any]") -> "dict[str, Any]":
    """Download the wheels of `order["urls"]`: `{"files": [path, ...]}` in their order, or `{"said": text}`."""
    os.environ.update(order["variables"])
    files: list[str] = []
    for number, url in enumerate(order["urls"]):
        path = f"{_WHEELS}/{number}.whl"
        try:
            _download(url, path, order["bytes_max"])
        except (OSError, ValueError) as error:
            return {"said": f"{url}: {error}"[:_TEXT_CHARS_MAX]}
        files.append(path)
    return {"files": files}


def _download(url: str, path: str, bytes_max: int) -> None:
    parts = urlsplit(url)
    with open(path, "wb") as file:
        if parts.scheme == "file":
            with open(unquote(parts.path), "rb") as source:
                _copy(source, file, bytes_max)
        elif parts.scheme in {"http", "https"}:
            with urllib.request.urlopen(url, timeout=60) as source:  # noqa: S310  one of two schemes
                _copy(source, file, bytes_max)
        else:
            raise ValueError("the index names no address that can be downloaded")


def _copy(source: Any, file: Any, bytes_max: int) -> None:
    written = 0
    while chunk := source.read(_CHUNK_BYTES):
        written += len(chunk)
        if written > bytes_max:
            raise ValueError(f"larger than the {bytes_max:,} bytes that may be installed")
        file.write(chunk)


def _uv(order: "dict[str, Any]", *command: str) -> "tuple[int, str]":
    variables = {**os.environ, **order["variables"], "UV_CACHE_DIR": f"{PLACE}/cache", "UV_NO_PROGRESS": "1"}
    for name in ("UV_OFFLINE", "PYTHONPATH"):
        variables.pop(name, None)
    done = subprocess.run(
        [order["uv"], *command, *_SOURCE, *order["index"]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=variables,
        check=False,
    )
    said = (done.stdout + done.stderr).decode(errors="replace")[-_TEXT_CHARS_MAX:]
    return done.returncode, said if done.returncode >= 0 else f"the resolver was ended by signal {-done.returncode}"


def _write(name: str, lines: "list[str]") -> str:
    with open(f"{PLACE}/{name}", "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return f"{PLACE}/{name}"
