"""Where the symbolic links of an archive lead, found out before one of them is made.

Links are followed on paper: from each link's folder, name by name, through other links, as the kernel would do it once
the archive is unpacked. Names that the archive does not hold are followed, too: somebody may make them later.

Each link is followed once, so the whole is linear in the links' texts. SECURITY: a chain or a ring of links cannot make
us recurse or work without bound.
"""

from __future__ import annotations

from typing import Final

from moonpool_wire.filenames import NameFault

LINKS_PASSED_MAX: Final = 40
"""As the kernel has it: a path through more links than these cannot be opened."""


class _Entry:
    """One name of the archive; the top has no folder above it."""

    __slots__ = ("above", "below", "end", "passed", "text")

    def __init__(self, above: _Entry | None) -> None:
        self.above = above
        self.below: dict[str, _Entry] = {}
        self.text = ""  # of a link
        self.end: tuple[_Entry, int] | None = None  # where a link leads: an entry, and how many missing names below it
        self.passed = 0  # how many links a link leads through, itself included


class ArchiveLinks:
    """The names of one archive and where its links lead."""

    def __init__(self) -> None:
        self._top = _Entry(None)

    def add(self, parts: tuple[str, ...], text: str = "") -> None:
        """Take in an entry; `text` is what a symbolic link says, and `link_stays_inside` had no objection."""
        assert not text.startswith("/"), "an absolute link"
        entry = self._top
        for name in parts:
            entry = entry.below.setdefault(name, _Entry(entry))
        entry.text = text

    def check(self, parts: tuple[str, ...]) -> None:
        """Raise NameFault if the link at `parts` leads out of the archive, or through too many others."""
        entry = self._top
        for name in parts:
            entry = entry.below[name]
        self._follow(entry, 1)

    def _follow(self, link: _Entry, passing: int) -> tuple[_Entry, int]:
        if link.end is not None:
            return link.end
        at, missing, passed = link.above, 0, 1
        assert at is not None, "the top is no link"
        for name in link.text.split("/"):
            if name in {"", "."}:
                continue
            if name == "..":
                at, missing = (at, missing - 1) if missing else (at.above, 0)
                if at is None:
                    raise NameFault("a link that leads out")
            elif missing or name not in at.below:
                missing += 1
            elif not at.below[name].text:
                at = at.below[name]
            else:
                if passing == LINKS_PASSED_MAX:
                    raise NameFault("a link through too many others")
                through = at.below[name]
                at, missing = self._follow(through, passing + 1)
                passed += through.passed
                if passed > LINKS_PASSED_MAX:
                    raise NameFault("a link through too many others")
        link.end, link.passed = (at, missing), passed
        return link.end
