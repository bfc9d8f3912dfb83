"""Receipts as files: writing one, reading one, saying what verification found.

SECURITY: a receipt may be a stranger's, whose key somebody gave: its texts reach the terminal with what does not print
written out.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from moonpool.broker.phrases import on_one_line
from moonpool.cli.config_choice import data_folder
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.cli.last_run import run_named
from moonpool.core.errors import InputError
from moonpool.core.json import canonical_json
from moonpool.core.receipts import ReceiptError, parse_receipt
from moonpool.runtime.receipts import RECEIPT_BYTES_MAX, make_receipt, verify_receipt
from moonpool.settings import Settings
from moonpool.store.paths import journal_path, keys_dir
from moonpool.store.signing_keys import PublicKey, SigningKeys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonValue
    from moonpool.runtime.receipts import Verdict

_SMALL_BYTES_MAX = 1024**2


def write_receipt(run_id: str, out: Path | None) -> int:
    """Make and print or write a receipt. Raises what making it raises, InputError."""
    data = data_folder(Settings.load(os.environ))
    named = run_named(run_id, data)
    line = canonical_json(make_receipt(journal_path(data), SigningKeys(keys_dir(data)), named)).decode() + "\n"
    if out is None:
        sys.stdout.write(line)
        return EXIT_OK
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(line)
    except FileExistsError:
        raise InputError(f"{out} is there already; choose another name") from None
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {(error.strerror or str(error)).lower()}") from None
    typer.echo(f"moonpool: wrote {out}", err=True)
    return EXIT_OK


def print_verdict(file: str, key: str | None, journal: Path | None, envelope: Path | None, *, as_json: bool) -> int:
    """Verify and say what was found; 1 when the receipt is not good. Raises ReceiptError, InputError..."""
    data = data_folder(Settings.load(os.environ))
    own = SigningKeys(keys_dir(data)).known()
    given = [] if key is None else [PublicKey.parse(_key_text(key))]
    keys = {one.key_id: one for one in given} or dict(own)
    text = sys.stdin.buffer.read(RECEIPT_BYTES_MAX + 1) if file == "-" else _read(Path(file), RECEIPT_BYTES_MAX)
    beside = journal
    if beside is None and _names_one_of(text, own) and journal_path(data).exists():
        beside = journal_path(data)
    shown = None if envelope is None else _json_of(envelope)
    verdict = verify_receipt(text, keys, journal=beside, envelope=shown)
    if as_json:
        typer.echo(json.dumps(verdict.to_json()))
    else:
        typer.echo(f"{file}: {on_one_line(_sentence(verdict))}")
    return EXIT_OK if verdict.ok else EXIT_FAILED


def print_key(*, rotate: bool) -> int:
    """Print the public key on stdout and its id on stderr. Raises SigningKeyError."""
    keys = SigningKeys(keys_dir(data_folder(Settings.load(os.environ))))
    public = keys.rotate() if rotate else keys.current()
    typer.echo(public.text)
    typer.echo(f"moonpool: key {public.key_id}", err=True)
    return EXIT_OK


def _sentence(verdict: Verdict) -> str:
    if not verdict.ok:
        return f"NOT GOOD: {verdict.problem}"
    more = "" if "journal" in verdict.checked else "; not compared with a journal"
    return f"good: {verdict.run_id}, {verdict.state}, signed by {verdict.key_id} ({', '.join(verdict.checked)}){more}"


def _names_one_of(text: bytes, own: Mapping[str, PublicKey]) -> bool:
    """Whether the receipt says that one of our keys signed it. Whether that is true is checked later."""
    try:
        key_id = parse_receipt(text).get("key_id")
    except ReceiptError:
        return False
    return isinstance(key_id, str) and key_id in own


def _key_text(given: str) -> str:
    if given.startswith("ed25519:"):
        return given
    return _read(Path(given), _SMALL_BYTES_MAX).decode(errors="replace")


def _json_of(path: Path) -> JsonValue:
    try:
        found: JsonValue = json.loads(_read(path, _SMALL_BYTES_MAX))
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON; give the line that `moonpool run` printed") from None
    return found


def _read(path: Path, bytes_max: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(content) > bytes_max:
        raise InputError(f"{path} is larger than {bytes_max:,} bytes; is it the right file?")
    return content
