"""What `pip install` is asked for, read as far as the host installs it: names, versions, requirements files."""

import re

_IGNORED = {
    "-q", "-qq", "--quiet", "--no-input", "--disable-pip-version-check", "--no-warn-script-location", "--no-cache-dir",
    "--user", "--break-system-packages",
}  # fmt: skip
_FILE = re.compile(r"(?:-r|--requirement)(?:=|$)|-r(?=[^-])")
_COMMENT = re.compile(r"(?:^|\s)#.*")


def wanted(words: "list[str]") -> str:
    """The requirements, a line each, of the words behind `install`. Raises OSError."""
    found: list[str] = []
    rest = iter(word for word in words if word not in _IGNORED)
    for word in rest:
        if named := _FILE.match(word):
            found += _read(word[named.end() :] or next(rest, ""))
        else:
            found.append(word)
    return "\n".join(found)


def _read(path: str) -> "list[str]":
    """The requirements of a file of the sandbox."""
    with open(path, encoding="utf-8") as file:
        return [text for line in file if (text := _COMMENT.sub("", line).strip())]
