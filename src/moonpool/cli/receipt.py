"""`moonpool receipt show|verify|key`: a signed report of what an execution did.

SECURITY: a receipt may come from an untrusted person: its strings are printed with unprintable characters escaped.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moonpool.bootstrap.stores import opened_stores
from moonpool.cli.commands import command_group, json_object
from moonpool.cli.config_choice import journal_of, run_named
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.cli.printer import print_json, remark
from moonpool.cli.service_data import data_dir_option, database_url_option, org_option, service_settings
from moonpool.core.errors import InputError
from moonpool.core.json import canonical_json
from moonpool.core.phrases import on_one_line
from moonpool.features.receipts.model import ReceiptError, parse_receipt
from moonpool.features.receipts.service import RECEIPT_BYTES_MAX, make_receipt, verify_receipt
from moonpool.features.receipts.signing_keys import PublicKey
from moonpool.store.journal_reading import FileJournalReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonValue
    from moonpool.features.receipts.service import Verdict

_SMALL_BYTES_MAX = 1024**2

app = command_group("Receipts: the record of one execution, signed with this installation's key.")


@app.command("show")
@click.argument("run_id", help="The execution; `last`: the newest.")
@click.option("--out", type=Path, metavar="FILE", help="Write to this new file instead of stdout.")
@org_option
@data_dir_option
@database_url_option
def show(run_id: str, *, out: Path | None, org: str | None, data_dir: Path | None, database_url: str | None) -> int:
    """Create the receipt of an execution from the audit journal and sign it. The key is created at first use."""
    settings, data = service_settings(data_dir, database_url)
    journal = journal_of(settings, org)
    named = run_named(run_id, journal)
    with opened_stores(settings, data) as stores:
        line = canonical_json(make_receipt(journal, stores.signing_keys(), named)).decode() + "\n"
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
    remark(f"wrote {out}")
    return EXIT_OK


@app.command("verify")
@click.argument("file", help="The receipt; `-` reads standard input.")
@click.option(
    "--key",
    metavar="KEY",
    help="The signer's public key as `moonpool receipt key` printed it there, or a file with it.",
)
@click.option(
    "--journal",
    type=Path,
    metavar="FILE",
    help="Compare with this journal. Default: the installation's own, if its key signed it.",
)
@click.option("--envelope", type=Path, metavar="FILE", help="The line that `moonpool run` printed: was it given out?")
@json_object
@org_option
@data_dir_option
@database_url_option
def verify(  # noqa: PLR0913  its options
    file: str,
    *,
    key: str | None,
    journal: Path | None,
    envelope: Path | None,
    as_json: bool,
    org: str | None,
    data_dir: Path | None,
    database_url: str | None,
) -> int:
    """Check a receipt: signature, hashes, and its place in the journal if there is one. Needs no network.

    Exit code 0 if it is valid, 1 if not, 2 if that cannot be determined.
    """
    settings, data = service_settings(data_dir, database_url)
    with opened_stores(settings, data) as stores:
        own = stores.signing_keys().known()
    given = [] if key is None else [PublicKey.parse(_key_text(key))]
    keys = {one.key_id: one for one in given} or dict(own)
    text = sys.stdin.buffer.read(RECEIPT_BYTES_MAX + 1) if file == "-" else _read(Path(file), RECEIPT_BYTES_MAX)
    beside = None if journal is None else FileJournalReader(journal)
    if beside is None and _names_one_of(text, own) and (known := journal_of(settings, org)).identity() is not None:
        beside = known
    shown = None if envelope is None else _json_of(envelope)
    verdict = verify_receipt(text, keys, journal=beside, envelope=shown)
    if as_json:
        print_json(verdict.to_json())
    else:
        click.echo(f"{file}: {on_one_line(_sentence(verdict))}")
    return EXIT_OK if verdict.ok else EXIT_FAILED


@app.command("key")
@click.option("--rotate", is_flag=True, help="Put a new key in its place first; receipts of the old one still verify.")
@data_dir_option
@database_url_option
def key(*, rotate: bool, data_dir: Path | None, database_url: str | None) -> int:
    """Print the public key, with which others verify receipts."""
    settings, data = service_settings(data_dir, database_url)
    with opened_stores(settings, data) as stores:
        keys = stores.signing_keys()
        public = keys.rotate() if rotate else keys.current()
    click.echo(public.text)
    remark(f"key {public.key_id}")
    return EXIT_OK


def _sentence(verdict: Verdict) -> str:
    if not verdict.ok:
        return f"NOT GOOD: {verdict.problem}"
    more = "" if "journal" in verdict.checked else "; not compared with a journal"
    return f"good: {verdict.run_id}, {verdict.state}, signed by {verdict.key_id} ({', '.join(verdict.checked)}){more}"


def _names_one_of(text: bytes, own: Mapping[str, PublicKey]) -> bool:
    """Whether the receipt claims a signature by one of our keys. The claim is checked later."""
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
