# ruff: noqa: T201  a demo prints
"""`make demo`: code in a sealed sandbox calls two real MCP servers, and nothing else of the host.

Read it from `main` downwards. The programs that run in the sandbox are `history.py` and `escape.py` beside this file.
The demo checks what it shows and exits with 1 when anything is not as it should be. The README has its figures; a test
compares them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sample_repository import EXPECTED, make_repository

from moonpool.bootstrap import Tenant, open_default_tenant
from moonpool.catalog.catalog import Catalog
from moonpool.catalog.render import hit_lines, manifest_lines
from moonpool.catalog.tokens import count_tokens, definition_text
from moonpool.cli.printer import Colour
from moonpool.configuration.servers import load_config
from moonpool.core.errors import MoonpoolError
from moonpool.engine.code_request import CodeRequest
from moonpool.pipeline.approval import DenyApprover
from moonpool.server.mcp.answers import execution_answer
from moonpool.server.mcp.definitions import TOOLS, model_view
from moonpool.settings import Settings
from moonpool.store.journal_reading import read_rows, verify_file
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent  # the two servers are installed beside this interpreter
COLOUR = Colour.on(sys.stdout.fileno())
TOKEN = "demo-7f3a9c51"  # noqa: S105  stands for a real credential: the git server gets it, the sandbox must not


async def main() -> None:
    """Set the scene, run both programs, account for everything. Nothing is left, and nothing that lies here is used."""
    with new_folder() as scratch:
        repository = Path(scratch) / "repository"
        make_repository(repository)
        config = write_config(Path(scratch) / "servers.json", repository)
        environ = {**os.environ, "DEMO_TOKEN": TOKEN}
        async with open_default_tenant(
            Settings.load(os.environ, data_dir=Path(scratch) / "data"),
            config=load_config(config, environ),
            approver=DenyApprover(),  # nobody sits here to be asked, so what is not allowed is refused
            environ=environ,
        ) as app:
            tokens = await show_tools(app)
            envelope = await show_history(app, tokens)
            await show_escape(app)
            show_accounts(app, envelope, tokens)
            show_next()


def new_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for everything that sandboxes may pass. Not below /tmp, which a sandbox covers with its own."""
    folder = tempfile.TemporaryDirectory(prefix="moonpool-demo-", dir="/var/tmp")
    Path(folder.name).chmod(0o755)
    return folder


def write_config(path: Path, repository: Path) -> Path:
    """The `mcpServers` file that MCP clients know; their own word for which tools only read is believed here."""
    path.write_text(
        json.dumps(
            {
                "mcpServers": {
                    "time": {"command": str(BIN / "mcp-server-time"), "moonpool": {"trusted": True}},
                    "git": {
                        "command": str(BIN / "mcp-server-git"),
                        "args": ["--repository", str(repository)],
                        "cwd": str(repository),
                        "env": {"DEMO_TOKEN": "${DEMO_TOKEN}"},
                        "moonpool": {"trusted": True},
                    },
                }
            }
        ),
        encoding="utf-8",
    )
    return path


@dataclass
class Tokens:
    """What a model was shown and wrote, beside every definition as a client without a catalog sends it."""

    upfront: int
    by_kind: dict[str, int] = field(default_factory=dict)

    def spend(self, kind: str, text: str) -> int:
        cost = self.by_kind[kind] = count_tokens(text)
        return cost

    @property
    def spent(self) -> int:
        return sum(self.by_kind.values())


async def show_tools(app: Tenant) -> Tokens:
    """What a model reads before it writes code, instead of every definition."""
    snapshot = await app.tool_registry.snapshot()
    check(not snapshot.problems, f"both servers can be listed: {dict(snapshot.problems)}")
    catalog = Catalog(snapshot.manifest)
    tokens = Tokens(sum(count_tokens(definition_text(tool)) for tool in snapshot.manifest.tools()))
    tokens.spend("tools", json.dumps([model_view(tool) for tool in TOOLS]))  # the three that `moonpool mcp` offers

    title("What a model reads: the tools it needs, in a handful of tokens")
    servers = manifest_lines(catalog.servers())
    hits = hit_lines(catalog.search(["commit log", "convert time between zones"], limit=2))
    stubs = "\n".join(
        catalog.definition(server, name)
        for server, name in [("git", "git_log"), ("git", "git_show"), ("time", "convert_time")]
    )
    for kind, text in [("list", servers), ("search", hits), ("definitions", stubs)]:
        cost = COLOUR.of("cyan", f"[{kind}: {tokens.spend(kind, text)} tokens]")
        print(f"{text}\n  {cost}\n")
    return tokens


async def show_history(app: Tenant, tokens: Tokens) -> Envelope:
    """The program that does the work."""
    program = (HERE / "history.py").read_bytes()
    title("What a model writes: one program instead of 50 calls (examples/history.py)")
    print(COLOUR.of("dim", program.decode().partition('"""\n\n')[2].rstrip()))
    envelope = await app.runtime.run(CodeRequest(code=program, name="history.py"), app.caller_grant)

    title("What comes back")
    print(f"{COLOUR.of('bold', 'printed')}  {str(envelope.extras.get('stdout')).rstrip()}")
    print(f"{COLOUR.of('bold', 'result')}   {json.dumps(envelope.data)}")
    check(envelope.ok, f"history.py ends well: {envelope.error}")
    check(envelope.data == EXPECTED, "the history is what was put into the repository, and the time server answered")
    check("changing_calls" not in envelope.metrics, "no call that only reads counts as a change")
    tokens.spend("program", program.decode())  # written by the model, so it costs too
    tokens.spend("result", execution_answer(envelope).text)
    return envelope


async def show_escape(app: Tenant) -> None:
    """The program that tries to get out."""
    program = f"HOST_FILE = {__file__!r}\n" + (HERE / "escape.py").read_text(encoding="utf-8")
    envelope = await app.runtime.run(CodeRequest(code=program.encode(), name="escape.py"), app.caller_grant)

    title("What code cannot do: escape.py tried to get out (examples/escape.py)")
    ends = envelope.data if isinstance(envelope.data, dict) else {}
    for attempt, end in ends.items():
        print(f"{COLOUR.of('green', 'refused')}  {attempt:28}{end!s:.100}")
    check(len(ends) == 6, f"every attempt was made: {envelope.error}")
    check(all("GOT THROUGH" not in str(end) for end in ends.values()), "every attempt failed")
    check(TOKEN not in json.dumps(envelope.to_json()), "the credential is nowhere")


def show_accounts(app: Tenant, envelope: Envelope, tokens: Tokens) -> None:
    """What the audit journal says was called, and what a model was spared."""
    journal = journal_path(app.data)
    rows = [row.to_json() for row in read_rows(journal, run_id=envelope.run_id)]
    calls = [row for row in rows if row["kind"] == "call_outcome"]

    title("What is on record: the calls of history.py, from the audit journal")
    for call in calls[:4]:
        print(call_line(call))
    print(f"and {len(calls) - 4} more calls")
    check(len(calls) == EXPECTED["commits"] + 2, "one record per call")
    check(all(call["error_type"] == "" for call in calls), "every call went well")
    chain = verify_file(journal)
    print(f"the journal's hash chain of {chain.rows} records {'verifies' if chain.ok else 'is BROKEN: ' + chain.why}")
    check(chain.ok, "the chain verifies")

    title("What it costs, and what it saves")
    kept = sum(number(call["result_bytes"]) for call in calls)
    handed = len(json.dumps(envelope.data))
    kinds = ", ".join(f"{kind} {cost}" for kind, cost in sorted(tokens.by_kind.items()))
    print(f"read and written        {tokens.spent:>8,} tokens   ({kinds})")
    print(f"all definitions upfront {tokens.upfront:>8,} tokens   before the first question is asked")
    print(f"kept in the sandbox     {kept:>8,} bytes    of tool results, about {kept // 4:,} tokens")
    print(f"handed over             {handed:>8,} bytes    of result")
    saved = tokens.upfront + kept // 4 - tokens.spent
    total = COLOUR.of("green", f"saved                   {saved:>8,} tokens")
    print(f"{total}   (definitions counted; results estimated at 4 bytes a token)")
    check(saved > 0 and kept > 100 * handed, "the large data stayed inside")


def show_next() -> None:
    """What to type now."""
    title("What to type next")
    command = str(BIN / "moonpool")
    shown = command if BIN.parent.parent != Path.cwd() else str((BIN / "moonpool").relative_to(Path.cwd()))
    for arguments, why in (
        ("run -c 'result = 6 * 7'", "code of yours in a sandbox"),
        ("init", "take over the servers that your MCP clients have"),
        ("tools search 'what you need'", "find their tools"),
        ("doctor", "attack real sandboxes on this machine"),
    ):
        print(f"{COLOUR.of('bold', f'{shown} {arguments}')}   # {why}")
    print("docs/tutorial/first-run.md takes ten minutes from here.")


def call_line(call: JsonObject) -> str:
    """One call as the journal keeps it: names, digests and sizes, no values."""
    name = f"{call['server_id']}.{call['tool_name']}"
    digest = str(call["arguments_digest"])[:19]
    return f"{name:22}{call['verdict']} by {call['rule_id']:32}arguments {digest}…  {call['result_bytes']:>7} bytes"


def number(value: object) -> int:
    """A count from the journal."""
    return value if isinstance(value, int) else 0


def title(text: str) -> None:
    """Start a section."""
    print(f"\n{COLOUR.of('bold', f'== {text}')}")


def check(good: bool, what: str) -> None:
    """Stop with exit code 1 when something is not as it should be."""
    if not good:
        sys.exit(f"demo: NOT as it should be: {what}")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except MoonpoolError as error:
        sys.exit(f"demo: {error}")
