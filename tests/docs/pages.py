"""Reads the documentation: tables, headings, links, and snippets marked as runnable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])

_SNIPPET = re.compile(r"<!-- runnable: ([\w-]+) -->\s*\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Snippet:
    page: str
    kind: str
    text: str


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def snippets(*kinds: str) -> list[Snippet]:
    return [
        Snippet(page.relative_to(ROOT).as_posix(), kind, text)
        for page in PAGES
        for kind, text in _SNIPPET.findall(page.read_text(encoding="utf-8"))
        if kind in kinds
    ]


def rows(text: str) -> list[list[str]]:
    """Rows of every table in `text`, without heads and rules, cells without backticks."""
    lines = text.splitlines()
    found: list[list[str]] = []
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and not line.startswith("|---") and not following.startswith("|---"):
            found.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return found


def section(text: str, title: str) -> str:
    """The text below the heading `## title`, up to the next one of its kind."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def anchors(text: str) -> set[str]:
    """Anchors that a renderer makes of the headings."""
    titles = re.findall(r"^#+ (.+)$", _CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(text: str) -> list[str]:
    return _LINK.findall(_CODE.sub("", text))
