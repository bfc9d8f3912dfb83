"""What may be asked for, and what the operator allows."""

from __future__ import annotations

from typing import Any

import pytest

from moonpool.core.errors import ConfigError
from moonpool.engine.packages.model import PackageDisallowedError, PackageSpecifierError
from moonpool.engine.packages.specifiers import AllowedPackages, parse_requirements
from tables import every_row


@every_row(
    ("text", "found"),
    [
        ("numpy", ["numpy"]),
        ("numpy>=2,<3", ["numpy>=2,<3"]),
        ("numpy >= 2 , < 3  pandas\n Foo_Bar[x, y]==1.*", ["numpy>=2,<3", "pandas", "Foo_Bar[x,y]==1.*"]),
        ("a==1 A==2", ["A==2"]),
        ("zope.interface~=7.0+local.1", ["zope.interface~=7.0+local.1"]),
    ],
)
def test_requirements_are_read(text: str, found: list[str]) -> None:
    assert [one.text for one in parse_requirements(text)] == found


@every_row(
    ("text", "why"),
    [
        ("", "nothing to install"),
        ("  \n ", "nothing to install"),
        ("git+https://example.com/x", "git address"),
        ("x @ git+https://example.com/x", "git address"),
        ("https://example.com/x.whl", "an address or a file"),
        ("x @ https://example.com/x.whl", "an address or a file"),
        ("x@https://example.com/x.whl", "an address or a file"),
        ("./x", "a path"),
        ("/etc/passwd", "a path"),
        ("../x", "a path"),
        ("x.whl", "an address or a file"),
        ("requirements.txt", "an address or a file"),
        ("-r requirements", "an option"),
        ("--index-url=https://example.com x", "an option"),
        ("numpy --pre", "an option"),
        ("x; python_version<'3'", "marker"),
        ("x==", "no requirement"),
        ("x==1\0", "no requirement"),
        ("numpy\u202e", "no requirement"),
        ("ｎumpy", "no requirement"),
        ("x " * 5000, "characters"),
        (" ".join(f"x{n}" for n in range(51)), "51 packages"),
    ],
)
def test_what_is_no_package_of_the_index_is_refused(text: str, why: str) -> None:
    with pytest.raises(PackageSpecifierError, match=why):
        parse_requirements(text)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(PackageSpecifierError) as caught:
        parse_requirements("git+https://user:secret@example.com/x")
    assert "secret" not in str(caught.value)


@every_row(
    ("text", "asked", "needed"),
    [
        ("any", True, True),
        ("any,!right-pad", True, True),
        ("any, !Left_Pad.*", True, True),
        ("numpy, left.pad", True, True),
        ("left-*", True, True),
        ("numpy", False, True),
        ("", False, True),
        ("any,!left-*", False, False),
        ("left-pad,!left-pad", False, False),
    ],
)
def test_the_operators_list(text: str, asked: Any, needed: Any) -> None:
    allowed = AllowedPackages.parse(text)
    assert _passes(lambda: allowed.check(parse_requirements("Left.Pad==1"))) is asked
    assert _passes(lambda: allowed.check_needed("left-pad")) is needed


def _passes(check: Any) -> bool:
    try:
        check()
    except PackageDisallowedError:
        return False
    return True


def test_a_list_with_something_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="no name"):
        AllowedPackages.parse("numpy>=2")
