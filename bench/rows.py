"""Every row: what it is, what it is compared with, and its budgets, each with its sentence from the design.

In the order in which they are printed; our own rows first, then what they are compared with.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bench.budgets import Budget, RowSpec
from bench.growth_rows import GROWTH
from bench.peer_rows import COMPARED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.budgets import Unit

_POOLED = (
    "fresh isolated Python `1+1`, pool full, paced at 20/s, host call to outcome: p50 ≤ 1 ms, p95 ≤ 4 ms; "
    "`bwrap python -I -S` per execution: ≥ 12×; ipybox's warm kernel: ≥ 40×"
)
_UNPOOLED = (
    "the same without pool: base p50 ≤ 5.5 ms; data packages preloaded p50 ≤ 12 ms; "
    '`python -c "import numpy,pandas,matplotlib,IPython"`: ≥ 80×'
)
_SESSION = "next execution in a live session: plain p50 ≤ 0.5 ms; IPython p50 ≤ 1.5 ms; ipybox: ≥ 30×"
_TOOL = (
    "tool call, added time = median(guest call to guest return) − median(direct `mcp` Client call to the same echo "
    "server): read-only ≤ 0.8 ms, writing ≤ 1.5 ms"
)
_COLD = "first use by a new tenant (cold zygote): ≤ 150 ms base, ≤ 1.5 s data"
_MEMORY = "idle session: base ≤ 4 MB private; data ≤ 8 MB private"
_COMMAND = "`moonpool run --env base`, two servers configured, none called: ≤ 0.6 s; `moonpool --help`: ≤ 0.25 s"
_WRAPPERS = "wrappers + stubs for the 241 tools of the published lists: ≤ 0.8 s, linear in size"
_SEARCH = "search p95 over ~8,500 tools: < 10 ms"
_REDACTION = "1 MB of worst-case text in ≤ 50 ms"
_LANGUAGES = "a second language in a live session starts cold: node ≤ 60 ms, bash ≤ 10 ms"
_KILLED = "interrupt keeps session state; grace, then kill; confirmed dead: ≤ 250 ms"
_LOST = "lost outputs in 10,000 executions: 0; zero lost, zero swapped, zero hung"


def _most(limit: float, source: str, *, at: str = "p50") -> Budget:
    assert at in {"p50", "p95"}
    return Budget(statistic="p95" if at == "p95" else "p50", at_most=limit, source=source)


def _times(limit: float, peer: str, source: str) -> Budget:
    return Budget(statistic="ratio", at_least=limit, peer=peer, source=source)


def _row(title: str, *budgets: Budget, unit: Unit = "ms", peers: tuple[str, ...] = ()) -> RowSpec:
    return RowSpec(title=title, unit=unit, peers=peers, budgets=budgets)


_EXECUTIONS = {
    "fresh.pooled.base": _row(
        "fresh execution, pool full, base",
        *(_most(1, _POOLED), _most(4, _POOLED, at="p95")),
        *(_times(12, "bwrap.python", _POOLED), _times(40, "ipybox.execute", _POOLED)),
        peers=("bwrap.python", "ipybox.execute"),
    ),
    "fresh.pooled.data": _row(
        "fresh execution, pool full, data",
        *(_most(1, _POOLED), _most(4, _POOLED, at="p95")),
        peers=("ipybox.execute", "python.imports"),
    ),
    "fresh.unpooled.base": _row(
        "fresh execution, no pool, base", _most(5.5, _UNPOOLED), peers=("bwrap.python", "python.plain")
    ),
    "fresh.unpooled.data": _row(
        "fresh execution, no pool, data",
        *(_most(12, _UNPOOLED), _times(80, "python.imports", _UNPOOLED)),
        peers=("python.imports",),
    ),
    "session.base": _row(
        "next execution in a session, base",
        *(_most(0.5, _SESSION), _times(30, "ipybox.execute", _SESSION)),
        peers=("ipybox.execute", "jupyter.execute"),
    ),
    "session.data": _row(
        "next execution in a session, data",
        *(_most(1.5, _SESSION), _times(30, "ipybox.execute", _SESSION)),
        peers=("ipybox.execute", "jupyter.execute"),
    ),
}

_OTHER_LANGUAGES = {
    "node.cold": _row("first Node execution in a live session", _most(60, _LANGUAGES), peers=("node.plain",)),
    "node.pooled": _row("fresh Node execution, pool full", peers=("node.plain",)),
    "node.next": _row("next Node execution in a session"),
    "bash.cold": _row("first Bash execution in a live session", _most(10, _LANGUAGES), peers=("bash.plain",)),
    "bash.next": _row("next Bash execution in a session"),
}

_ENDS = {
    f"kill.{mode}.{count}": _row(
        f"kill to confirmed dead, {count} computing process{'es' if count > 1 else ''}, {what}", _most(250, _KILLED)
    )
    for mode, what in (("groups", "control groups"), ("rlimits", "rlimits only"))
    for count in (1, 60)
}

_CALLS = {
    "tool.added.read_only": _row("tool call, added by Moonpool, read-only", _most(0.8, _TOOL)),
    "tool.added.writing": _row("tool call, added by Moonpool, writing", _most(1.5, _TOOL)),
    "tool.guest.read_only": _row("tool call as guest code sees it, read-only", peers=("tool.direct", "ipybox.tool")),
    "tool.guest.writing": _row("tool call as guest code sees it, writing", peers=("tool.direct", "ipybox.tool")),
    "mcp.fresh": _row("`execute_code` over stdio MCP, fresh sandbox", peers=("codemode.execute",)),
    "mcp.session": _row("`execute_code` over stdio MCP, next in a session", peers=("codemode.execute",)),
    "mcp.call": _row("`execute_code` over stdio MCP with one tool call, fresh", peers=("codemode.call",)),
}

_STARTS = {
    "cold.base": _row(
        "first execution of a new tenant, base", _most(150, _COLD), peers=("ipybox.cold", "jupyter.cold")
    ),
    "cold.data": _row(
        "first execution of a new tenant, data", _most(1500, _COLD), peers=("ipybox.cold", "jupyter.cold")
    ),
    "command.help": _row("`moonpool --help`, whole process", _most(250, _COMMAND), peers=("command.python",)),
    "command.run": _row(
        "`moonpool run --env base`, two servers, none called", _most(600, _COMMAND), peers=("command.python",)
    ),
}

_KEPT = {
    f"memory.{state}.{environment}": _row(
        f"private memory of {what}, {environment}",
        *((_most(limit, _MEMORY),) if state == "idle" else ()),
        unit="MB",
        peers=("memory.ipybox", "memory.jupyter") if state == "idle" else (),
    )
    for state, what in (
        ("ready", "a ready sandbox in the pool"),
        ("idle", "an idle session"),
        ("used", "a used session"),
    )
    for environment, limit in (("base", 4.0), ("data", 8.0))
} | {
    "memory.idle.node": _row("private memory of an idle session with Python and Node", unit="MB"),
    "memory.idle.bash": _row("private memory of an idle session with Python and Bash", unit="MB"),
}

_REDACTION_OF_MUCH = {
    f"redact.full.{name}": _row(f"redaction of 1 MB that is nothing but {what}", _most(50, _REDACTION))
    for name, what in (
        ("environment", "`NAME=secret`"),
        ("shortest", "the shortest `NAME=secret`"),
        ("yaml", "passwords in YAML"),
        ("json", "secrets in JSON"),
        ("headers", "`Authorization` headers"),
        ("aws", "AWS keys"),
        ("github", "GitHub tokens"),
        ("addresses", "passwords in URLs"),
        ("known", "a known value"),
        ("known.base64", "a known value in base64"),
        ("long", "tokens of 171 characters"),
        ("private_keys", "private keys"),
        ("missed", "what is looked at and is none"),
        ("mixed", "all of these"),
    )
} | {
    "redact.json.members": _row("redaction of a value of 1 MB: 30,000 members named `password`"),
    "redact.json.records": _row("the same: 15,000 records with a token"),
    "redact.json.strings": _row("the same: 43,000 strings that hold a password"),
    "redact.json.known": _row("the same: 37,000 times a known value"),
    "redact.personal.mails": _row("redaction of 1 MB: 62,500 e-mail addresses"),
    "redact.personal.phones": _row("the same: 66,000 phone numbers"),
    "redact.personal.ibans": _row("the same: 35,000 numbers that are hardly ever an IBAN"),
    "redact.personal.cards": _row("the same: 50,000 numbers that are no cards"),
}  # fmt: skip

_CATALOG = {
    "wrappers.x1": _row("wrappers and stubs of 241 tools", _most(800, _WRAPPERS)),
    "wrappers.x4": _row("wrappers and stubs of 964 tools"),
    "wrappers.linear": _row("time per tool, 964 tools against 241", _most(1.25, _WRAPPERS), unit="×"),
    "wrappers.notion": _row("wrappers and stubs of notion's 24 tools", peers=("ipybox.wrappers",)),
    "search": _row(
        "catalog search over 8,500 tools (`--tiny`: 500)", _most(10, _SEARCH, at="p95"), peers=("codemode.search",)
    ),
    "redact.text": _row("redaction of 1 MB of ordinary text", _most(50, _REDACTION)),
    "redact.worst": _row("the same, full of what resembles secrets", _most(50, _REDACTION)),
    "redact.worst.personal": _row("the same, with all kinds of personal data", _most(50, _REDACTION)),
    "redact.secrets": _row("the same, with 1,200 passwords in it", _most(50, _REDACTION)),
} | _REDACTION_OF_MUCH

_SOAK = {
    "soak.lost": _row("outputs lost, mixed and concurrent", _most(0, _LOST), unit="per 10,000", peers=("ipybox.lost",)),
    "soak.swapped": _row("outputs that belong to another execution", _most(0, _LOST), unit="per 10,000"),
    "soak.hung": _row("executions that never ended", _most(0, _LOST), unit="per 10,000"),
    "soak.rate": _row("mixed executions per second", unit="per s"),
    "soak.growth": _row("host memory gained in the second half", unit="MB"),
}

_OURS = _EXECUTIONS | _OTHER_LANGUAGES | _ENDS | _CALLS | _STARTS | _KEPT | _CATALOG | _SOAK

ROWS: Final[Mapping[str, RowSpec]] = MappingProxyType(_OURS | dict(GROWTH) | dict(COMPARED))
