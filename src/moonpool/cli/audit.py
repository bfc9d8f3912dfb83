"""`moonpool audit show|verify`: who ran what, which tools were called, and whether the journal is intact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from moonpool.cli.commands import command_group, json_lines
from moonpool.cli.config_choice import journal_of, run_named
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.service_data import data_dir_option, database_url_option, org_option, service_settings
from moonpool.core.errors import InputError
from moonpool.core.phrases import counted, on_one_line
from moonpool.features.receipts.model import State
from moonpool.features.receipts.service import execution_states
from moonpool.policy import entry_decides, entry_remedy, operators_remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from moonpool.core.audit import AuditRow, JournalReader
    from moonpool.core.json import JsonObject

_START = "execution_start"

_COUNTED = {"calls_refused": "more refused calls", "connections_refused": "more refused connections"}

_REMEDIES_MAX = 10

_COLUMNS = ("seq", "at", "run", "what", "decision", "outcome", "ms")

app = command_group("The audit journal: every execution and tool call, hash-chained.")


@app.command("show")
@click.option("--run", metavar="RUN_ID", help="Only this execution; `last`: the newest.")
@click.option(
    "--tail",
    type=click.IntRange(min=1, max=1000000),
    metavar="COUNT",
    default=50,
    show_default=True,
    help="At most so many records, the newest.",
)
@json_lines
@org_option
@data_dir_option
@database_url_option
def show(
    *, run: str | None, tail: int, as_json: bool, org: str | None, data_dir: Path | None, database_url: str | None
) -> int:
    """Show the newest records, oldest first."""
    journal = journal_of(service_settings(data_dir, database_url)[0], org)
    run = None if run is None else run_named(run, journal)
    rows = list(journal.rows(run_id=run, tail=tail))
    states = execution_states(journal, rows)
    unknown = _without_outcome(journal, rows, states)
    if as_json:
        for row in rows:
            state: JsonObject = {"state": states[row.run_id]} if row.kind == _START else {}
            print_json({**row.to_json(), **state, **({"outcome": State.UNKNOWN} if row.seq in unknown else {})})
    elif rows:
        records = [{**row.to_json(), **({"outcome": State.UNKNOWN} if row.seq in unknown else {})} for row in rows]
        print_table(_COLUMNS, (_cells(row.seq, record, states) for row, record in zip(rows, records, strict=True)))
        for command in _remedies(records) if run is not None else ():
            remark(f"to allow what was refused, with that run's --config if it had one: {command}")
    if not rows:
        what = f"no record of {run!r}; `moonpool audit show` lists the newest" if run else "the audit journal is empty"
        remark(f"{what}")
    return int(not rows and run is not None)


@app.command("verify")
@click.option("--anchor", metavar="SEQ:HASH", help="A head that `verify` printed earlier; finds a cut-off end.")
@org_option
@data_dir_option
@database_url_option
def verify(*, anchor: str | None, org: str | None, data_dir: Path | None, database_url: str | None) -> int:
    """Verify the hash chain. Exit code 1 if it is broken."""
    journal = journal_of(service_settings(data_dir, database_url)[0], org)
    where, outcome = journal.name, journal.verify(anchor=_anchor(anchor))
    if outcome.ok:
        click.echo(f"{where}: {counted(outcome.rows, 'record')}, chain whole; head {outcome.rows}:{outcome.head}")
        if anchor is None:
            remark("keep that head elsewhere: only --anchor shows that the end was cut off")
        return 0
    click.echo(
        f"{where}: broken at record {outcome.broken_seq}: {outcome.why}; {outcome.rows} records before it are whole. "
        "Keep it as evidence"
    )
    return 1


def _without_outcome(journal: JournalReader, rows: Sequence[AuditRow], states: Mapping[str, State]) -> set[int]:
    """Numbers of intents among `rows` of which nobody can tell what came: their execution ended or was lost first."""
    settled = {(row.run_id, row.to_json().get("call_id")) for row in rows if row.kind == "call_outcome"}
    open_ = [
        row for row in rows if row.kind == "call_intent" and (row.run_id, row.to_json().get("call_id")) not in settled
    ]
    begun = [row for run_id in {row.run_id for row in open_} - states.keys() for _, row in journal.run(run_id)]
    known = {**execution_states(journal, begun), **states}
    return {row.seq for row in open_ if known.get(row.run_id) is not State.RUNNING}


def _remedies(records: Iterable[JsonObject]) -> list[str]:
    """Commands that would allow the refused calls that the server's entry decided, not a policy file."""
    found: dict[str, None] = {}
    for record in records:
        server_id, tool, rule_id = (str(record.get(name, "")) for name in ("server_id", "tool_name", "rule_id"))
        refused = record.get("error_type") in {"ApprovalRejected", "PolicyDenied"}
        if refused and entry_decides(rule_id, server_id):
            remedy = operators_remedy(entry_remedy(rule_id, server_id, tool), server_id, tool)
            found[on_one_line(remedy)] = None
    return list(found)[:_REMEDIES_MAX]


def _anchor(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    seq, _, digest = text.partition(":")
    if not seq.isdecimal() or len(digest) != 64:
        raise InputError(f"{text[:80]!r} is not an anchor; give SEQ:HASH as `moonpool audit verify` printed it")
    return int(seq), digest


def _of_session(kind: str, record: JsonObject) -> str:
    """What was done to a session from outside, or what it did there."""
    if kind == "connection":
        return _connection(record)
    if kind == "file_transfer":
        return f"{record.get('what')} {record.get('direction')}: {record.get('path')} ({record.get('bytes')} bytes)"
    if kind == "packages":
        new, asked = record.get("installed"), record.get("asked")
        names = new if isinstance(new, list) and new else asked
        return f"packages: {', '.join(map(str, names)) if isinstance(names, list) and names else 'none'}"
    if record.get("action") == "forked":
        return f"session forked: {record.get('forked_session')}"
    undone = record.get("undone")
    what = "recovered after its process ended" if record.get("action") == "recovered" else "put back"
    return f"session {what}: {len(undone) if isinstance(undone, list) else 0} executions undone"


def _counts(record: JsonObject) -> str:
    refused = record.get("refused")
    return ", ".join(f"{count} {name}" for name, count in refused.items()) if isinstance(refused, dict) else ""


def _connection(record: JsonObject) -> str:
    """Where code connected to, and what passed."""
    where = f"{record.get('host') or '(no host)'}:{record.get('port')}"
    address = f" at {record['address']}" if record.get("address") else ""
    used = ", with its credential" if record.get("credential") else ""
    moved = f", {record.get('bytes_up')} bytes up, {record.get('bytes_down')} down{used}"
    why = f": {record['reason']}" if record.get("reason") else ""
    return f"connection to {where}{address}{'' if record.get('outcome') == 'open' else moved}{why}"


def _changed(kind: str, record: JsonObject) -> str:
    """What somebody changed: an entry of the library, a key, an organisation, stored files."""
    if kind == "stored_files":
        where = "/".join(str(record[name]) for name in ("tree", "path") if record.get(name))
        return f"{where} {record.get('action')} by {record.get('principal')} ({record.get('bytes')} bytes)"
    if kind == "administration":
        return f"{str(record.get('action')).replace('_', ' ')}: {record.get('subject')} by {record.get('principal')}"
    taken = f" from {record['from_run']}" if record.get("from_run") else ""
    what = f"{record.get('entry')} {record.get('action')} by {record.get('principal')}{taken}"
    return f"{what} (intent)" if kind == "library_intent" else what


def _cells(seq: int, record: JsonObject, states: Mapping[str, State]) -> tuple[str, ...]:
    kind = str(record.get("kind", ""))
    what = f"{record.get('server_id', '')}.{record.get('tool_name', '')}" if kind.startswith("call_") else kind
    what = f"{what} (intent)" if kind == "call_intent" else what
    if kind in _COUNTED:
        what = f"{_COUNTED[kind]}: {_counts(record)}"
    if kind == "standing_answer":
        what = f"approval grant {record.get('what')} by {record.get('approver')}"
    if kind in {"file_transfer", "checkpoint", "connection", "packages"}:
        what = _of_session(kind, record)
    if kind == "question":
        what = f"{record.get('server_id')} asked: {record.get('method')} {record.get('mode')}".rstrip()
    if kind == "drift":
        kinds = record.get("changes")
        shown_kinds = ", ".join(map(str, kinds)) if isinstance(kinds, list) else ""
        what = f"{record.get('server_id')}.{record.get('tool_name')} changed, {record.get('action')}: {shown_kinds}"
    if kind in {"library", "library_intent", "administration", "stored_files"}:
        what = _changed(kind, record)
    decision = " ".join(str(record[name]) for name in ("verdict", "approval") if record.get(name))
    duration = record.get("duration_ms")
    shown = f"{duration:.0f}" if isinstance(duration, int | float) else ""
    at, run = str(record.get("at", "")), str(record.get("run_id", ""))
    return (str(seq), at, run, what, decision, _outcome(record, states), shown)


def _outcome(record: JsonObject, states: Mapping[str, State]) -> str:
    kind, ended = record.get("kind"), record.get("error_type") or record.get("outcome")
    if kind == _START:
        state = states[str(record.get("run_id"))]
        return "" if state is State.ENDED else str(state)
    if kind == "question":
        who = record.get("answerer") or record.get("why")
        return f"{record.get('answer')} ({who})" if who else str(record.get("answer"))
    if kind in {"call_intent", "library_intent"}:
        return str(ended or "")
    if kind == "execution_lost":
        return str(State.LOST)
    return "refused" if kind in _COUNTED else str(ended or "ok")
