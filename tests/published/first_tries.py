"""One program per server and language, as a model writes it at the first try.

Each was written from the answer of `search_tools` to `queries`, the stubs of `uses` and the description of
`execute_code`, before it was run. Where it had to be changed to work, the product was mended instead, so whoever edits a program here
says by that what misled its author. FOLDER, REPOSITORY, PAGES and LANGUAGE stand for what the user's request names.
"""

# ruff: noqa: E501  a model's lines

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LANGUAGES: Final = ("python", "node", "bash")


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTry:
    """What a model asks, and the program that it then writes in each language."""

    queries: tuple[str, ...]
    uses: tuple[str, ...]
    python: str
    node: str
    bash: str
    data: Any

    def program(self, language: str) -> str:
        return {"python": self.python, "node": self.node, "bash": self.bash}[language]


_TIME = FirstTry(
    queries=("convert time between time zones",),
    uses=("servers.time.convert_time",),
    python="""
from servers.time import convert_time

result = {}
for zone in ["Asia/Tokyo", "Asia/Kolkata", "Africa/Lagos"]:
    r = await convert_time(source_timezone="UTC", time="09:00", target_timezone=zone)
    result[zone] = r.target.datetime[11:16]
""",
    node="""
import { convertTime } from "./servers/time/index.js";

const result = {};
for (const zone of ["Asia/Tokyo", "Asia/Kolkata", "Africa/Lagos"]) {
  const r = await convertTime({ source_timezone: "UTC", time: "09:00", target_timezone: zone });
  result[zone] = r.data.target.datetime.slice(11, 16);
}
""",
    bash="""
for zone in Asia/Tokyo Asia/Kolkata Africa/Lagos; do
  moonpool call time.convert_time "{\\"source_timezone\\": \\"UTC\\", \\"time\\": \\"09:00\\", \\"target_timezone\\": \\"$zone\\"}" |
    jq --arg zone "$zone" '{($zone): .target.datetime[11:16]}'
done | jq -cs add
""",
    data={"Asia/Tokyo": "18:00", "Asia/Kolkata": "14:30", "Africa/Lagos": "10:00"},
)

_GIT = FirstTry(
    queries=("git commit log", "git show commit"),
    uses=("servers.git.git_log", "servers.git.git_show"),
    python="""
import re
from servers.git import git_log, git_show

log = await git_log(repo_path="REPOSITORY", max_count=100)
added = {}
for commit in re.findall(r"\\b[0-9a-f]{40}\\b", log.data):
    shown = await git_show(repo_path="REPOSITORY", revision=commit)
    lines = shown.data.splitlines()
    added[commit[:7]] = sum(1 for line in lines if line.startswith("+") and not line.startswith("+++"))
result = {"commits": len(added), "added": sum(added.values()), "most": max(added.values())}
""",
    node="""
import * as git from "./servers/git/index.js";

const log = await git.gitLog({ repo_path: "REPOSITORY", max_count: 100 });
const added = [];
for (const commit of log.data.match(/\\b[0-9a-f]{40}\\b/g)) {
  const shown = await git.gitShow({ repo_path: "REPOSITORY", revision: commit });
  added.push(shown.data.split("\\n").filter((line) => line.startsWith("+") && !line.startsWith("+++")).length);
}
globalThis.result = {
  commits: added.length,
  added: added.reduce((sum, count) => sum + count, 0),
  most: Math.max(...added),
};
""",
    bash="""
set -euo pipefail
total=0 most=0 commits=0
for commit in $(moonpool call git.git_log '{"repo_path": "REPOSITORY", "max_count": 100}' | grep -oE '\\b[0-9a-f]{40}\\b'); do
  count=$(moonpool call git.git_show "{\\"repo_path\\": \\"REPOSITORY\\", \\"revision\\": \\"$commit\\"}" |
    jq -r . | grep -v '^+++' | grep -c '^+' || true)
  commits=$((commits + 1)) total=$((total + count)) most=$((count > most ? count : most))
done
echo "{\\"commits\\": $commits, \\"added\\": $total, \\"most\\": $most}"
""",
    data={"commits": 12, "added": 78, "most": 12},
)

_FETCH = FirstTry(
    queries=("fetch web page",),
    uses=("servers.fetch.fetch",),
    python="""
import re
from servers.fetch import fetch

front = await fetch(url="PAGES/news", raw=True)
result = {}
for link in re.findall(r'href="([^"]+)"', front.data):
    page = await fetch(url="PAGES" + link, max_length=50000)
    result[link] = len(re.findall(r"\\bmoon\\b", page.data, re.IGNORECASE))
""",
    node="""
import { fetch as fetchPage } from "./servers/fetch/index.js";

const front = await fetchPage({ url: "PAGES/news", raw: true });
const links = [...front.data.matchAll(/href="([^"]+)"/g)].map((match) => match[1]);
const pages = await Promise.all(links.map((link) => fetchPage({ url: "PAGES" + link, max_length: 50000 })));
globalThis.result = Object.fromEntries(
  links.map((link, i) => [link, (pages[i].data.match(/\\bmoon\\b/gi) ?? []).length]),
);
""",
    bash="""
for link in $(moonpool call fetch.fetch '{"url": "PAGES/news", "raw": true}' | jq -r . | grep -o 'href="[^"]*"' | cut -d'"' -f2); do
  count=$(moonpool call fetch.fetch "{\\"url\\": \\"PAGES$link\\", \\"max_length\\": 50000}" | jq -r . | grep -oiw moon | wc -l)
  jq -n --arg link "$link" --argjson count "$count" '{($link): $count}'
done | jq -cs add
""",
    data={"/news/first": 3, "/news/second": 1, "/news/third": 0},
)

_SQLITE = FirstTry(
    queries=("sqlite create table", "sqlite insert rows", "sqlite select query"),
    uses=("servers.sqlite.create_table", "servers.sqlite.write_query", "servers.sqlite.read_query"),
    python="""
from servers import sqlite

await sqlite.create_table(query="CREATE TABLE sales_LANGUAGE (region TEXT, amount REAL)")
for region, amount in [("north", 120.5), ("south", 80), ("north", 30), ("west", 99.25)]:
    await sqlite.write_query(query=f"INSERT INTO sales_LANGUAGE VALUES ('{region}', {amount})")
rows = await sqlite.read_query(
    query="SELECT region, SUM(amount) AS total FROM sales_LANGUAGE GROUP BY region ORDER BY total DESC"
)
result = {row["region"]: row["total"] for row in rows}
""",
    node="""
import * as sqlite from "./servers/sqlite/index.js";

await sqlite.createTable({ query: "CREATE TABLE sales_LANGUAGE (region TEXT, amount REAL)" });
const sales = [["north", 120.5], ["south", 80], ["north", 30], ["west", 99.25]];
for (const [region, amount] of sales) {
  await sqlite.writeQuery({ query: `INSERT INTO sales_LANGUAGE VALUES ('${region}', ${amount})` });
}
const rows = await sqlite.readQuery({
  query: "SELECT region, SUM(amount) AS total FROM sales_LANGUAGE GROUP BY region ORDER BY total DESC",
});
globalThis.result = Object.fromEntries(rows.data.map((row) => [row.region, row.total]));
""",
    bash="""
set -e
moonpool call sqlite.create_table '{"query": "CREATE TABLE sales_LANGUAGE (region TEXT, amount REAL)"}' >/dev/null
while read -r region amount; do
  moonpool call sqlite.write_query "{\\"query\\": \\"INSERT INTO sales_LANGUAGE VALUES ('$region', $amount)\\"}" >/dev/null
done <<'EOF'
north 120.5
south 80
north 30
west 99.25
EOF
moonpool call sqlite.read_query '{"query": "SELECT region, SUM(amount) AS total FROM sales_LANGUAGE GROUP BY region ORDER BY total DESC"}' |
  jq -c 'map({(.region): .total}) | add'
""",
    data={"north": 150.5, "west": 99.25, "south": 80.0},
)

_EVERYTHING = FirstTry(
    queries=("weather of a city", "sum of two numbers"),
    uses=("servers.everything.get_structured_content", "servers.everything.get_sum"),
    python="""
import asyncio, re
from servers.everything import get_structured_content, get_sum

cities = ["New York", "Chicago", "Los Angeles"]
reports = await asyncio.gather(*(get_structured_content(location=city) for city in cities))
degrees = {city: report.temperature for city, report in zip(cities, reports)}
total = 0
for value in degrees.values():
    total = int(re.findall(r"-?\\d+", str(await get_sum(a=total, b=value)))[-1])
result = {"warmest": max(degrees, key=degrees.get), "total": total}
""",
    node="""
import { getStructuredContent, getSum } from "./servers/everything/index.js";

const cities = ["New York", "Chicago", "Los Angeles"];
const reports = await Promise.all(cities.map((location) => getStructuredContent({ location })));
const degrees = reports.map((report) => report.temperature);
let total = 0;
for (const value of degrees) {
  const sum = await getSum({ a: total, b: value });
  total = Number(sum.text.match(/-?\\d+/g).at(-1));
}
globalThis.result = { warmest: cities[degrees.indexOf(Math.max(...degrees))], total };
""",
    bash="""
best= highest=-1000 total=0
for city in "New York" Chicago "Los Angeles"; do
  degrees=$(moonpool call everything.get_structured_content "{\\"location\\": \\"$city\\"}" | jq .temperature)
  total=$(moonpool call everything.get_sum "{\\"a\\": $total, \\"b\\": $degrees}" | grep -oE '[0-9]+' | tail -1)
  if [ "$degrees" -gt "$highest" ]; then best=$city highest=$degrees; fi
done
printf '{"warmest": "%s", "total": %d}\\n' "$best" "$total"
""",
    data={"warmest": "Los Angeles", "total": 142},
)

_FILESYSTEM = FirstTry(
    queries=("filesystem list folder", "filesystem read text file", "filesystem write file"),
    uses=(
        "servers.filesystem.list_directory",
        "servers.filesystem.read_text_file",
        "servers.filesystem.write_file",
    ),
    python="""
import csv, io, json
from servers.filesystem import list_directory, read_text_file, write_file

listing = await list_directory(path="FOLDER")
names = [line.removeprefix("[FILE] ") for line in listing.content.splitlines() if line.endswith(".csv")]
result = {}
for name in names:
    file = await read_text_file(path=f"FOLDER/{name}")
    result[name] = sum(int(row["amount"]) for row in csv.DictReader(io.StringIO(file.content)))
await write_file(path="FOLDER/totals.json", content=json.dumps(result))
""",
    node="""
import { listDirectory, readTextFile, writeFile } from "./servers/filesystem/index.js";

const listing = await listDirectory({ path: "FOLDER" });
const names = listing.content.split("\\n").filter((line) => line.endsWith(".csv")).map((line) => line.slice(7));
const totals = {};
for (const name of names) {
  const { content } = await readTextFile({ path: `FOLDER/${name}` });
  const rows = content.trim().split("\\n").slice(1).map((line) => line.split(","));
  totals[name] = rows.reduce((sum, row) => sum + Number(row[1]), 0);
}
await writeFile({ path: "FOLDER/totals.json", content: JSON.stringify(totals) });
globalThis.result = totals;
""",
    bash="""
set -euo pipefail
totals='{}'
for name in $(moonpool call filesystem.list_directory '{"path": "FOLDER"}' | jq -r .content | sed -n 's/^\\[FILE\\] \\(.*\\.csv\\)$/\\1/p'); do
  sum=$(moonpool call filesystem.read_text_file "{\\"path\\": \\"FOLDER/$name\\"}" | jq -r .content | awk -F, 'NR > 1 { sum += $2 } END { print sum }')
  totals=$(jq -c --arg name "$name" --argjson sum "$sum" '. + {($name): $sum}' <<<"$totals")
done
jq -n --arg content "$totals" '{path: "FOLDER/totals.json", content: $content}' | moonpool call filesystem.write_file - >/dev/null
echo "$totals"
""",
    data={"april.csv": 60, "june.csv": 7, "may.csv": 15},
)

_MEMORY = FirstTry(
    queries=("knowledge graph create entities", "knowledge graph create relations", "knowledge graph open nodes"),
    uses=("servers.memory.create_entities", "servers.memory.create_relations", "servers.memory.open_nodes"),
    python="""
from servers import memory

moons = {"Io": "Jupiter", "Europa": "Jupiter", "Rhea": "Saturn"}
names = [*moons, *sorted(set(moons.values()))]
await memory.create_entities(
    entities=[
        {"name": f"{name} LANGUAGE", "entityType": "moon" if name in moons else "planet", "observations": []}
        for name in names
    ]
)
await memory.create_relations(
    relations=[
        {"from": f"{moon} LANGUAGE", "to": f"{planet} LANGUAGE", "relationType": "orbits"}
        for moon, planet in moons.items()
    ]
)
graph = await memory.open_nodes(names=[f"{name} LANGUAGE" for name in names])
result = {"entities": len(graph.entities), "relations": sorted(r["from"].split()[0] for r in graph.relations)}
""",
    node="""
import * as memory from "./servers/memory/index.js";

const moons = { Io: "Jupiter", Europa: "Jupiter", Rhea: "Saturn" };
const names = [...Object.keys(moons), ...new Set(Object.values(moons))];
await memory.createEntities({
  entities: names.map((name) => ({
    name: `${name} LANGUAGE`,
    entityType: name in moons ? "moon" : "planet",
    observations: [],
  })),
});
await memory.createRelations({
  relations: Object.entries(moons).map(([moon, planet]) => ({
    from: `${moon} LANGUAGE`,
    to: `${planet} LANGUAGE`,
    relationType: "orbits",
  })),
});
const graph = await memory.openNodes({ names: names.map((name) => `${name} LANGUAGE`) });
globalThis.result = {
  entities: graph.entities.length,
  relations: graph.relations.map((relation) => relation.from.split(" ")[0]).sort(),
};
""",
    bash="""
set -e
moonpool call memory.create_entities '{"entities": [
  {"name": "Io LANGUAGE", "entityType": "moon", "observations": []},
  {"name": "Europa LANGUAGE", "entityType": "moon", "observations": []},
  {"name": "Rhea LANGUAGE", "entityType": "moon", "observations": []},
  {"name": "Jupiter LANGUAGE", "entityType": "planet", "observations": []},
  {"name": "Saturn LANGUAGE", "entityType": "planet", "observations": []}
]}' >/dev/null
for pair in Io:Jupiter Europa:Jupiter Rhea:Saturn; do
  jq -n --arg from "${pair%:*} LANGUAGE" --arg to "${pair#*:} LANGUAGE" \\
    '{relations: [{from: $from, to: $to, relationType: "orbits"}]}' | moonpool call memory.create_relations - >/dev/null
done
moonpool call memory.open_nodes '{"names": ["Io LANGUAGE", "Europa LANGUAGE", "Rhea LANGUAGE", "Jupiter LANGUAGE", "Saturn LANGUAGE"]}' |
  jq -c '{entities: .entities | length, relations: [.relations[].from | split(" ")[0]] | sort}'
""",
    data={"entities": 5, "relations": ["Europa", "Io", "Rhea"]},
)

_THINKING = FirstTry(
    queries=("sequential thinking",),
    uses=("servers.sequential_thinking.sequentialthinking",),
    python="""
from servers.sequential_thinking import sequentialthinking

thoughts = ["List what is known", "Weigh two plans", "Choose the cheaper plan"]
for number, thought in enumerate(thoughts, 1):
    step = await sequentialthinking(
        thought=thought,
        thoughtNumber=number,
        totalThoughts=len(thoughts),
        nextThoughtNeeded=number < len(thoughts),
    )
result = {"last": step.thoughtNumber, "more": step.nextThoughtNeeded}
""",
    node="""
import { sequentialthinking } from "./servers/sequential_thinking/index.js";

const thoughts = ["List what is known", "Weigh two plans", "Choose the cheaper plan"];
let step;
for (const [index, thought] of thoughts.entries()) {
  step = await sequentialthinking({
    thought,
    thoughtNumber: index + 1,
    totalThoughts: thoughts.length,
    nextThoughtNeeded: index + 1 < thoughts.length,
  });
}
const result = { last: step.thoughtNumber, more: step.nextThoughtNeeded };
""",
    bash="""
number=0
for thought in "List what is known" "Weigh two plans" "Choose the cheaper plan"; do
  number=$((number + 1))
  more=$([ $number -lt 3 ] && echo true || echo false)
  step=$(moonpool call sequential_thinking.sequentialthinking "{\\"thought\\": \\"$thought\\", \\"thoughtNumber\\": $number, \\"totalThoughts\\": 3, \\"nextThoughtNeeded\\": $more}")
done
jq -c '{last: .thoughtNumber, more: .nextThoughtNeeded}' <<<"$step"
""",
    data={"last": 3, "more": False},
)

FIRST_TRIES: Final[Mapping[str, FirstTry]] = {
    "time": _TIME,
    "git": _GIT,
    "fetch": _FETCH,
    "sqlite": _SQLITE,
    "everything": _EVERYTHING,
    "filesystem": _FILESYSTEM,
    "memory": _MEMORY,
    "sequential-thinking": _THINKING,
}
