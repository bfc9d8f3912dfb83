"""Conditions on arguments, operator by operator, with the tricks that each must see through."""

from __future__ import annotations

import json
import posixpath
import unicodedata
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.manifest import ToolDefinition
from moonpool.policy import (
    Absent,
    ArgumentTest,
    Below,
    CallFacts,
    Condition,
    Equals,
    Finding,
    Glob,
    HostIn,
    OneOf,
    Range,
    Regex,
    Rule,
    Verdict,
)
from tables import every_row

HOLDS, FAILS, MISSING, UNREADABLE = Finding.HOLDS, Finding.FAILS, Finding.MISSING, Finding.UNREADABLE


def look(test: ArgumentTest, value: Any) -> Finding:
    return Condition("/x", test).look({"x": value})


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        pytest.param("", {"a": [1, {"b/c": 2, "m~n": 3, "": 4}], "-": 5}, id="the whole"),
        pytest.param("/a/0", 1, id="an index"),
        pytest.param("/a/1/b~1c", 2, id="an escaped slash"),
        pytest.param("/a/1/m~0n", 3, id="an escaped tilde"),
        pytest.param("/a/1/", 4, id="an empty name"),
        pytest.param("/-", 5, id="a hyphen is a name in an object"),
    ],
)
def test_a_pointer_finds_what_it_names(pointer: str, expected: Any) -> None:
    arguments: Any = {"a": [1, {"b/c": 2, "m~n": 3, "": 4}], "-": 5}
    assert Condition(pointer, Equals(expected)).look(arguments) is HOLDS


@every_row(
    "pointer", ["/b", "/a/2", "/a/-", "/a/00", "/a/01", "/a/+1", "/a/-1", "/a/١", "/a/0/x", "/a/99999999999", "/s/0"]
)
def test_a_pointer_that_leads_nowhere_finds_nothing(pointer: str) -> None:
    assert Condition(pointer, Glob(("*",))).look({"a": [1, 2], "s": "text"}) is MISSING
    assert Condition(pointer, Absent()).look({"a": [1, 2], "s": "text"}) is HOLDS


@pytest.mark.parametrize("pointer", ["a", "#/a", "/a~", "/a~2", "/" + "a" * 1000, "/a" * 65])
def test_a_bad_pointer_is_refused(pointer: str) -> None:
    with pytest.raises(ValueError, match="JSON pointer"):
        Condition(pointer, Absent())


@every_row(
    ("test", "value", "expected"),
    [
        pytest.param(Equals("a"), "a", HOLDS, id="equal texts"),
        pytest.param(Equals("a"), "A", FAILS, id="case counts"),
        pytest.param(Equals(1), 1.0, HOLDS, id="numbers by value"),
        pytest.param(Equals(1), True, FAILS, id="true is not 1"),
        pytest.param(Equals(True), 1, FAILS, id="1 is not true"),
        pytest.param(Equals(False), False, HOLDS, id="false is false"),
        pytest.param(Equals(1), "1", FAILS, id="a text is no number"),
        pytest.param(Equals({"a": [1, {}]}), {"a": [1.0, {}]}, HOLDS, id="deep"),
        pytest.param(Equals({"a": [1]}), {"a": [True]}, FAILS, id="deep and different"),
        pytest.param(Equals({"a": 1}), {"a": 1, "b": 2}, FAILS, id="one member more"),
        pytest.param(Equals([]), {}, FAILS, id="a list is no object"),
        pytest.param(OneOf(("a", 2)), 2, HOLDS, id="one of them"),
        pytest.param(OneOf(("a", 2)), None, FAILS, id="none of them"),
        pytest.param(Glob(("acme/*",)), "acme/site", HOLDS, id="glob"),
        pytest.param(Glob(("acme/*", "me/*")), "me/x", HOLDS, id="another glob"),
        pytest.param(Glob(("acme/*",)), "evil/acme/site", FAILS, id="glob from the start"),
        pytest.param(Glob(("acme/*",)), "acme/../evil/site", UNREADABLE, id="glob and .."),
        pytest.param(Glob(("acme/*",)), "acme\\..\\evil", UNREADABLE, id="glob and .. with backslashes"),
        pytest.param(Glob(("v1..*",)), "v1..v2", HOLDS, id="dots inside a name"),
        pytest.param(Glob(("acme/*",)), ["acme/site"], UNREADABLE, id="a list is no text"),
        pytest.param(Glob(("acme/*",)), None, UNREADABLE, id="null is no text"),
        pytest.param(Glob(("1*",)), 15, UNREADABLE, id="a number is no text"),
        pytest.param(Glob(("*",)), "a/../b", HOLDS, id="any text"),
        pytest.param(Glob(("a*",)), "a" * 16_385, UNREADABLE, id="too long to search"),
        pytest.param(Glob(("a*",)), "a\ud800", UNREADABLE, id="half a surrogate pair"),
        pytest.param(Regex("[a-z]+"), "abc", HOLDS, id="regex"),
        pytest.param(Regex("[a-z]+"), "abc\n", FAILS, id="the whole text, line ends too"),
        pytest.param(Regex("a|b"), "bx", FAILS, id="alternatives are anchored as well"),
        pytest.param(Regex("secret", anywhere=True), "a secret b", HOLDS, id="anywhere"),
        pytest.param(Regex("é."), "éü", HOLDS, id="letters, not bytes"),
        pytest.param(Regex("1.*"), 15, UNREADABLE, id="regex and a number"),
        pytest.param(Range(1, 10), 10, HOLDS, id="ends included"),
        pytest.param(Range(1, 10), 10.5, FAILS, id="above"),
        pytest.param(Range(None, 10), -3, HOLDS, id="no lower end"),
        pytest.param(Range(1, None), 2**53 - 1, HOLDS, id="the largest whole number that all programs know"),
        pytest.param(Range(1, None), 2**53, UNREADABLE, id="a number that others are rounded to"),
        pytest.param(Range(1, None), -(2**53) - 1, UNREADABLE, id="a number that is rounded to another"),
        pytest.param(Range(1, None), 10**400, UNREADABLE, id="larger than any float"),
        pytest.param(Range(1, None), 1e20, UNREADABLE, id="a float without fractions"),
        pytest.param(Range(1, None), 9007199254740993.0, UNREADABLE, id="a float for an odd number"),
        pytest.param(Range(None, 10), -1e308, UNREADABLE, id="a float that no integer holds"),
        pytest.param(Range(None, 1), float("inf"), UNREADABLE, id="1e999, as it is read"),
        pytest.param(Equals(2**53 + 1), 2**53 + 1, UNREADABLE, id="equal to a number that is rounded"),
        pytest.param(Equals(2**53 + 1), float(2**53), UNREADABLE, id="what it is rounded to"),
        pytest.param(Equals(5), 2**64 + 5, UNREADABLE, id="what it is cut to"),
        pytest.param(Equals({"a": [2**60]}), {"a": [2**60]}, UNREADABLE, id="rounded deep inside"),
        pytest.param(Equals("a"), 2**60, FAILS, id="no number at all"),
        pytest.param(OneOf(("a", 2**60)), 2**60, UNREADABLE, id="one of several, rounded"),
        pytest.param(OneOf((2**60, {"A": 1}, {"a": 1})), {"a": 1}, HOLDS, id="one that holds is enough"),
        pytest.param(Range(1, 10), "5", UNREADABLE, id="a text that looks like a number"),
        pytest.param(Range(0, 1), True, UNREADABLE, id="true is no number"),
        pytest.param(Range(0, 1), float("nan"), UNREADABLE, id="NaN"),
        pytest.param(Absent(), None, FAILS, id="null is something"),
    ],
)
def test_an_operator_finds(test: ArgumentTest, value: Any, expected: Finding) -> None:
    assert look(test, value) is expected


OWN = "acme/[\\w.%/\\\\;?#&=: -]+"
ELSEWHERE = [
    "..", "../evil", "x/../../evil", "..\\evil", "x\\..\\..\\evil", "..?x=1", "..#x", "..;/evil", "x/..;a=b/evil",
    ".. /evil", "%2e%2e/evil", "%2E%2e/evil", "%2e./evil", ".%2E/evil", "..%2fevil", "..%5Cevil", "..%5cevil",
    "%252e%252e/evil", "%25252e%252E/evil", "%252525252e./evil", "..%252fevil", "%c0%ae%c0%ae/evil", "%C0%AE./evil",
    "%e0%80%ae./evil", "%f0%80%80%ae./evil", "..%c0%afevil", "..%c1%9cevil", "%u002e%u002e/evil", "%U002E./evil",
    "%uff0e%uff0e/evil", "%ef%bc%8e%ef%bc%8e/evil", "%e2%80%a5/evil", "a%00/evil", "x?path=../evil", "x&y=../evil",
    "%2e", "a%2etxt", ".%0a./evil", ".%09./evil", "..%0a/evil", "x/..%20/evil",
]  # fmt: skip


@every_row("tail", ELSEWHERE)
def test_no_pattern_takes_a_text_that_a_decoder_reads_as_another(tail: str) -> None:
    """Whatever the rule: it is not allowed, and what is denied or asked about stays so."""
    for test in (Glob(("acme/*",)), Glob(("secret/*",)), Regex(OWN), Regex("(?s)acme/.*"), Regex("secret/.*")):
        assert look(test, f"acme/{tail}") is UNREADABLE, test
    assert look(Regex("^acme/", anywhere=True), f"acme/{tail}") is UNREADABLE


@every_row(
    "text",
    ["acme/．．/evil", "acme/‥/evil", "acme/．/．．", "acme／../evil", "acme/.\u200b./evil", "acme/.\t./evil",
     "acme/％2e％2E/evil", "acme/..％2fevil", "acme/%u0%302e", "acme/.\r\n./evil", "acme/.\x00./evil",
     "acme/..\u2028/evil", "acme/․․/evil", "acme/﹒．/evil"],
)  # fmt: skip
def test_no_pattern_takes_dots_in_other_letters(text: str) -> None:
    for test in (Glob(("acme*",)), Glob(("secret/*",)), Regex("(?s)acme.*"), Regex("(?s)secret/.*")):
        assert look(test, text) is UNREADABLE, test


@every_row(
    ("test", "text", "expected"),
    [
        pytest.param(Glob(("secret/*",)), "%73ecret/a", UNREADABLE, id="an encoded letter"),
        pytest.param(Glob(("secret/*",)), "secret%2fa", UNREADABLE, id="an encoded slash"),
        pytest.param(Glob(("secret/*",)), "secret%252Fa", UNREADABLE, id="encoded twice"),
        pytest.param(Glob(("secret/*",)), "ｓecret/a", UNREADABLE, id="a wide letter"),
        pytest.param(Glob(("secret/*",)), "se\u200bcret/a", UNREADABLE, id="an invisible letter"),
        pytest.param(Regex("secret", anywhere=True), "a s%65cret b", UNREADABLE, id="an encoded letter, anywhere"),
        pytest.param(Regex("secret", anywhere=True), "a ſecret b", UNREADABLE, id="a long s, anywhere"),
        pytest.param(Regex("secret", anywhere=True), 'cat ../a "%2e" .. /', FAILS, id="dots are no part looked for"),
        pytest.param(Glob(("My files/*",)), "My%20files/a", UNREADABLE, id="an encoded blank"),
        pytest.param(Glob(("büro/*",)), "b%C3%BCro/a", UNREADABLE, id="an encoded letter beyond ASCII"),
        pytest.param(Glob(("/etc/*",)), "//etc/passwd", UNREADABLE, id="two slashes"),
        pytest.param(Glob(("/etc/*",)), "/.//./etc/passwd", UNREADABLE, id="a folder that is the same"),
        pytest.param(Glob(("etc/*",)), "./etc/passwd", UNREADABLE, id="from here"),
        pytest.param(Regex("https://h/admin/.*"), "https://h/%2e/admin/x", UNREADABLE, id="the same, encoded"),
        pytest.param(Regex("https://h/admin/.*"), "https://h/./admin/x", UNREADABLE, id="the same folder in a URL"),
        pytest.param(Regex("https://h/admin/.*"), "https://h\\admin\\x", UNREADABLE, id="backslashes in a URL"),
        pytest.param(Equals("/etc/passwd"), "/etc//passwd", UNREADABLE, id="equal but for slashes"),
        pytest.param(Glob(("/srv/*",)), "/srv/a//./b", HOLDS, id="slashes that change nothing"),
        pytest.param(Regex("a&b=1", anywhere=True), "x?a%26b%3D1", UNREADABLE, id="encoded marks"),
        pytest.param(Regex("secret", anywhere=True), "%u0073ecret", UNREADABLE, id="an escape of old servers"),
        pytest.param(Equals("a b"), "a%20b", UNREADABLE, id="equal once the blank is decoded"),
        pytest.param(Equals("main"), "m%61in", UNREADABLE, id="equal once decoded"),
        pytest.param(Equals("main"), "ｍain", UNREADABLE, id="equal once made plain"),
        pytest.param(OneOf(("main", "dev")), "d%65v", UNREADABLE, id="one of these once decoded"),
        pytest.param(Equals({"path": 1}), {"PATH": 1}, UNREADABLE, id="members that differ by case"),
        pytest.param(Equals({"a": 1}), {"a": 1, "A": 2}, UNREADABLE, id="a second member"),
        pytest.param(Glob(("acme/*",)), "%" * 16_000, FAILS, id="many signs of per cent"),
        pytest.param(Glob(("a*",)), "a%" + "25" * 50 + "41", UNREADABLE, id="encoded more often than anybody would"),
        pytest.param(Glob(("*a",)), "\ufdfa" * 4000, UNREADABLE, id="letters that stand for many"),
        pytest.param(Glob(("*.png",)), "a.sh\0.png", UNREADABLE, id="an end behind the end"),
        pytest.param(Regex(r"(?s).*\.png"), "a.sh\0.png", UNREADABLE, id="an end behind the end, for an expression"),
        pytest.param(Regex("secret", anywhere=True), "a\0secret", UNREADABLE, id="a NUL, anywhere"),
        pytest.param(Equals("main"), "main\0x", UNREADABLE, id="equal up to a NUL"),
        pytest.param(OneOf(("main", 1)), "main\0", UNREADABLE, id="one of these up to a NUL"),
        pytest.param(Equals("main"), "other\0main", FAILS, id="not equal up to a NUL"),
        # what stays as it was
        pytest.param(Glob(("https://h.org/*",)), "https://h.org/?q=a%20b%2Fc%3D100%25", HOLDS, id="an encoded query"),
        pytest.param(Regex(r"https://h\.org/[^ ]*"), "https://h.org/?q=a%20b", HOLDS, id="an encoded blank"),
        pytest.param(Glob(("main*",)), "main..dev", HOLDS, id="a range of commits"),
        pytest.param(Glob(("C:\\data\\*",)), "C:\\data\\a", HOLDS, id="backslashes"),
        pytest.param(Regex(r"acme/\w[\w.-]*"), "acme/a..b.txt", HOLDS, id="dots in a name"),
        pytest.param(Regex("(?s).*"), "It is 50 % … or so, é, ﬁ.\nYes", HOLDS, id="prose"),
        pytest.param(Equals("a%20b"), "a%20b", HOLDS, id="equal as it is written"),
        pytest.param(Equals("a"), "a" * 16_385, FAILS, id="too long to be it"),
        pytest.param(Equals("%61"), "%61", HOLDS, id="equal as it is written, escaped"),
    ],
)
def test_what_a_decoder_makes_of_a_text_counts_too(test: ArgumentTest, text: Any, expected: Finding) -> None:
    assert look(test, text) is expected


LETTERS = st.sampled_from(
    [*"./\\%", "..", "%2e", "%2F", "%5c", "%25", "%20", "%u002e", "．", "\u200b", "\n", ";", "?", "a"]
)


@given(st.lists(LETTERS, max_size=10).map("".join))
def test_what_a_pattern_takes_is_inside_for_a_reader_that_decodes_everything(tail: str) -> None:
    """Against a second, simpler reading."""
    for at, test in (("acme", Glob(("acme/*",))), ("acme", Regex("(?s)acme/.*")), ("/srv", Below(("/srv",)))):
        text = f"{at}/{tail}"
        if look(test, text) is HOLDS:
            for _ in range(4):
                text = unicodedata.normalize("NFKC", unquote(text)).replace("\\", "/").replace("\u200b", "")
            assert f"{posixpath.normpath(text)}/".startswith(f"{at}/")


@every_row(
    ("pointer", "arguments"),
    [
        pytest.param("/path", {"path": "/srv/a", "PATH": "/srv/a"}, id="case"),
        pytest.param("/path", {"PATH": "/srv/a", "path": "/srv/a"}, id="in the other order"),
        pytest.param("/path", {"path": "/srv/a", "ｐath": "/srv/a"}, id="wide"),
        pytest.param("/path", {"path": "/srv/a", "pa\u00adth": "/srv/a"}, id="invisible"),
        pytest.param("/path", {"path": "/srv/a", "path\ufe0f": "/srv/a"}, id="with a variation selector"),
        pytest.param("/files", {"files": "/srv/a", "ﬁles": "/srv/a"}, id="a ligature"),
        pytest.param("/kind", {"kind": "/srv/a", "\u212aind": "/srv/a"}, id="the sign of kelvin"),
        pytest.param("/file_path", {"file_path": "/srv/a", "filePath": "/srv/a"}, id="camel and snake"),
        pytest.param("/path", {"path": "/srv/a", "path\0x": "/srv/a"}, id="behind a NUL"),
        pytest.param("/path", {"path": "/srv/a", "\tpath": "/srv/a"}, id="a control character"),
        pytest.param("/path", {"path": "/srv/a", "path ": "/srv/a"}, id="a blank at its end"),
        pytest.param("/path", {"path": "/srv/a", "\u00a0path": "/srv/a"}, id="another blank"),
        pytest.param("/file path", {"file path": "/srv/a", "filePath": "/srv/a"}, id="a blank between words"),
        pytest.param("/o/0/path", {"o": [{"path": "/srv/a", "Path": "/srv/a"}]}, id="nested"),
        pytest.param("/o/path", {"o": {"path": "/srv/a"}, "O": {}}, id="on the way"),
        pytest.param("/path", {"Path": "/srv/a", "PATH": "/srv/a"}, id="two others"),
        pytest.param("/path", {"PATH": "/srv/a"}, id="another one alone"),
        pytest.param("/o/path", {"O": {"path": "/srv/a"}}, id="another one alone on the way"),
        pytest.param("/path", {"path": "/srv/a", **{f"m{n}": 1 for n in range(1000)}}, id="too many to compare"),
    ],
)
def test_what_two_names_may_mean_is_unreadable(pointer: str, arguments: Any) -> None:
    assert Condition(pointer, Below(("/srv",))).look(arguments) is UNREADABLE
    assert Condition(pointer, Absent()).look(arguments) is UNREADABLE


def test_another_name_alone_counts_only_where_its_value_would() -> None:
    """So a rule about `/path` of all servers does not stop every tool that has a `Path`."""
    assert Condition("/path", Below(("/etc",))).look({"Path": "/srv/a"}) is MISSING
    assert Condition("/path", Below(("/etc",))).look({"Path": "/etc/a"}) is UNREADABLE


@every_row(
    ("verdict", "arguments", "matches"),
    [
        pytest.param(Verdict.ALLOW, {"path": "/srv/a", "x": {"b": 1, "c": [{"b": 1}]}}, True, id="plain"),
        pytest.param(Verdict.ALLOW, {"path": "/srv/a", "x": [[{"b": 1, "B": 2}]]}, False, id="elsewhere"),
        pytest.param(Verdict.ALLOW, {"path": "/srv/a", "x": 1, "X": 2}, False, id="beside it"),
        pytest.param(Verdict.DENY, {"path": "/srv/a", "PATH": "/a"}, True, id="deny"),
        pytest.param(Verdict.ASK, {"path": "/etc/a", "PATH": "/srv"}, True, id="ask"),
        pytest.param(Verdict.DENY, {"path": "/etc", "x": {"b": 1, "B": 2}}, False, id="a deny about something else"),
    ],
)
def test_an_allow_rule_with_conditions_takes_no_call_with_two_names_for_one(
    verdict: Verdict, arguments: Any, matches: bool
) -> None:
    tool = ToolDefinition(server_id="s", name="t", raw={"name": "t"})
    rule = Rule(rule_id="r", verdict=verdict, when=(Condition("/path", Below(("/srv",))),))
    assert rule.matches(CallFacts(tool=tool, arguments=arguments)) is matches
    assert Rule(rule_id="r", verdict=verdict).matches(CallFacts(tool=tool, arguments=arguments))


@every_row(
    ("folder", "path", "expected"),
    [
        pytest.param("/srv/data", "/srv/data/a", HOLDS, id="below"),
        pytest.param("/srv/data", "/srv/data", HOLDS, id="the folder itself"),
        pytest.param("/srv/data", "/srv/data/", HOLDS, id="with a closing slash"),
        pytest.param("/srv/data/", "//srv/./data//a", HOLDS, id="double slashes and dots"),
        pytest.param("/srv/data", "/srv/data/x/../a", HOLDS, id=".. that stays inside"),
        pytest.param("/srv/data", "/srv/database/a", FAILS, id="a folder with a longer name"),
        pytest.param("/srv/data", "/srv/data/../etc", FAILS, id=".. that leaves"),
        pytest.param("/srv/data", "/../srv/data/a", HOLDS, id=".. of the root"),
        pytest.param("/srv/data", "/srv/Data/a", FAILS, id="case counts"),
        pytest.param("/srv/data", "srv/data/a", UNREADABLE, id="relative to where?"),
        pytest.param("/srv/data", "/srv/data/a\\..\\..\\etc", UNREADABLE, id="backslashes that may separate"),
        pytest.param("/srv/data", "/srv/data/a\\b", HOLDS, id="a backslash that changes nothing"),
        pytest.param("/srv/data", "C:\\srv\\data\\a", UNREADABLE, id="a drive"),
        pytest.param("/srv/data", "file:///srv/data/a", UNREADABLE, id="a scheme"),
        pytest.param("/srv/data", "~/srv/data", UNREADABLE, id="a home"),
        pytest.param("/srv/data", "/srv/data/%2e%2e/etc", UNREADABLE, id="escaped dots"),
        pytest.param("/srv/data", "/srv/data/..%2Fetc", UNREADABLE, id="an escaped slash"),
        pytest.param("/srv/data", "/srv/data/%252e%252e", UNREADABLE, id="escaped twice"),
        pytest.param("/srv/data", "/srv/data/%c0%ae%c0%ae/etc", UNREADABLE, id="overlong dots"),
        pytest.param("/srv/data", "/srv/data/%u002e%u002e/etc", UNREADABLE, id="dots of an old server"),
        pytest.param("/srv/data", "/srv/data/%ef%bc%8e%ef%bc%8e/etc", UNREADABLE, id="escaped wide dots"),
        pytest.param("/srv/data", "/srv/data/％2e％2e/etc", UNREADABLE, id="wide signs of per cent"),
        pytest.param("/srv/data", "/srv/data/..;/etc", UNREADABLE, id="dots and a parameter"),
        pytest.param("/srv/data", "/srv/data/..?x", UNREADABLE, id="dots and a query"),
        pytest.param("/srv/data", "/srv/data/.. /etc", UNREADABLE, id="dots and a blank"),
        pytest.param(".", "%7e/x", UNREADABLE, id="an escaped home"),
        pytest.param(".", "file%3a///etc", UNREADABLE, id="an escaped scheme"),
        pytest.param("/srv/a%20b", "/srv/a%20b/c%20d", HOLDS, id="escapes that change nothing"),
        pytest.param("/srv/a b", "/srv/a%20b/c", UNREADABLE, id="a folder that only a decoder finds"),
        pytest.param("/srv/data", "/srv/data/a\0.txt", UNREADABLE, id="NUL"),
        pytest.param("/srv/data", "/srv/data/\u202ea", UNREADABLE, id="a letter that turns the direction"),
        pytest.param("/srv/data", "/srv/data/．．/．．/etc", UNREADABLE, id="wide dots"),
        pytest.param("/srv/data", "/srv/data/a／..／..／etc", UNREADABLE, id="wide slashes"),
        pytest.param("/srv/data", " /srv/data/a", UNREADABLE, id="a blank before"),
        pytest.param("/srv/data", "", UNREADABLE, id="nothing"),
        pytest.param("/srv/data", "/" + "a" * 4096, UNREADABLE, id="too long"),
        pytest.param("/", "/etc/passwd", HOLDS, id="everything"),
        pytest.param(".", "a/b", HOLDS, id="relative below here"),
        pytest.param("docs", "./docs/a", HOLDS, id="relative below a folder"),
        pytest.param("docs", "docs/../src", FAILS, id="relative and out of the folder"),
        pytest.param("docs", "../docs/a", UNREADABLE, id="relative and out of here"),
        pytest.param("docs", "/docs/a", UNREADABLE, id="absolute below a relative one"),
        pytest.param(".", "C:evil", UNREADABLE, id="a drive below here"),
        pytest.param(".", "\\\\host\\share", UNREADABLE, id="a share below here"),
        pytest.param(".", "..\\up", UNREADABLE, id="backslashes that climb"),
        pytest.param("C:\\data", "C:\\data\\a", HOLDS, id="Windows"),
        pytest.param("C:\\data", "C:/data/./a", HOLDS, id="Windows with slashes"),
        pytest.param("C:\\data", "c:\\DATA\\a", UNREADABLE, id="Windows and case"),
        pytest.param("C:\\data", "D:\\data\\a", FAILS, id="another drive"),
        pytest.param("C:\\data", "C:data\\a", UNREADABLE, id="relative to a drive"),
        pytest.param("C:\\data", "C:\\data\\..\\x", FAILS, id="Windows and .."),
        pytest.param("C:\\data", "C:\\data\\.. \\x", UNREADABLE, id=".. and a blank"),
        pytest.param("C:\\data", "C:\\data.\\x", UNREADABLE, id="a closing dot"),
        pytest.param("C:\\data", "C:\\data\\a:stream", UNREADABLE, id="a stream"),
        pytest.param("C:\\data", "C:\\PROGRA~1\\x", UNREADABLE, id="a short name"),
        pytest.param("C:\\data", "\\\\?\\C:\\data\\a", UNREADABLE, id="a device path"),
        pytest.param("\\\\host\\share\\d", "\\\\host\\share\\d\\a", HOLDS, id="a share"),
        pytest.param("\\\\host\\share\\d", "\\\\host\\share\\..\\d", HOLDS, id="a share has a root"),
        pytest.param("file:///srv/data", "file:///srv/data/a", HOLDS, id="a URI"),
        pytest.param("file:///srv/data", "file:///srv/data/a%20b/../c", HOLDS, id="a URI with a blank and dots"),
        pytest.param("file:///srv/my%20data/", "file:///srv/my%20data/a", HOLDS, id="a blank in the folder"),
        pytest.param("file:///srv/my%20data/", "file:///srv/m%79%20data/a", UNREADABLE, id="letters escaped"),
        pytest.param("file:///srv/data", "file:///srv/data", HOLDS, id="the folder of a URI itself"),
        pytest.param("file:///srv/data", "file:///srv/database/a", FAILS, id="a URI with a longer name"),
        pytest.param("file:///srv/data", "file:///srv/data/../etc", FAILS, id="a URI that leaves"),
        pytest.param("file:///srv/data", "file:///srv/data/%2e%2e/etc", UNREADABLE, id="a URI with escaped dots"),
        pytest.param("file:///srv/data", "file:///srv/data/..%2fetc", UNREADABLE, id="a URI with an escaped slash"),
        pytest.param("file:///srv/data", "file:///srv/data/a\\..\\..\\etc", UNREADABLE, id="a URI with backslashes"),
        pytest.param("file:///srv/data", "file://evil/srv/data/a", UNREADABLE, id="a URI of another host"),
        pytest.param("file:///srv/data", "file://localhost/srv/data/a", UNREADABLE, id="a URI with a host"),
        pytest.param("file:///srv/data", "file:////srv/data/a", UNREADABLE, id="a URI of a share"),
        pytest.param("file:///srv/data", "file:/srv/data/a", UNREADABLE, id="a short URI"),
        pytest.param("file:///srv/data", "FILE:///srv/data/a", UNREADABLE, id="a URI in capitals"),
        pytest.param("file:///srv/data", "file:///srv/data/a?x", UNREADABLE, id="a query"),
        pytest.param("file:///srv/data", "file:///srv/data/a#x", UNREADABLE, id="a fragment"),
        pytest.param("file:///srv/data", "file:///srv/data/a%23x", HOLDS, id="an escaped mark in a name"),
        pytest.param("file:///srv/data", "file:///srv/data/..%3fx", UNREADABLE, id="an escaped mark behind dots"),
        pytest.param("file:///srv/data", "/srv/data/a", UNREADABLE, id="a path where a URI is wanted"),
        pytest.param("file:///srv/data", "https://h/srv/data/a", UNREADABLE, id="a page"),
        pytest.param("file:///C:/data", "file:///C:/data/a", HOLDS, id="a URI of Windows"),
        pytest.param("file:///C:/data", "file:///c:/DATA/a", UNREADABLE, id="a URI of Windows and case"),
        pytest.param("file:///C:/data", "file:///C:/data/../x", FAILS, id="a URI of Windows that leaves"),
        pytest.param("file:///srv", "file:///C:/srv/a", UNREADABLE, id="a drive in a URI"),
        pytest.param("file:///", "file:///etc/passwd", HOLDS, id="all files"),
    ],
)
def test_below_reads_paths_as_servers_may(folder: str, path: str, expected: Finding) -> None:
    assert look(Below((folder,)), path) is expected


@every_row(
    "folder",
    [
        "", "a\\b", "../up", "~/x", " /x", "/x/%2e%2e", "/x/%c0%ae", "C:\\a:b", "/a\0", "https://h/x", "file://h/x",
        "file:/x", "file:////h/x", "file:///x?y", "file:///x#y", "file:///x/%2e%2e", "file:///C:/a:b", "file:///a\\b",
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_meant_is_refused(folder: str) -> None:
    with pytest.raises(ValueError, match=r"folder|absolute"):
        Below((folder,))


def test_one_folder_that_holds_is_enough() -> None:
    assert look(Below(("/a", "rel")), "/a/b") is HOLDS
    assert look(Below(("/a", "/b")), "/c") is FAILS
    for value in ("/srv/a", "file:///srv/a"):
        assert look(Below(("file:///srv", "/srv")), value) is HOLDS


HOSTS = ("example.org", "*.example.net", "api.example.com:8443", "127.0.0.1", "[2001:db8::1]", "xn--bcher-kva.example")


@every_row(
    ("url", "expected"),
    [
        pytest.param("https://example.org/a?b#c", HOLDS, id="plain"),
        pytest.param("https://example.org", HOLDS, id="nothing behind"),
        pytest.param("HTTPS://EXAMPLE.ORG./", HOLDS, id="upper case and a closing dot"),
        pytest.param("https://example.org:444/", HOLDS, id="any port where none is named"),
        pytest.param("https://example.org:/", HOLDS, id="an empty port"),
        pytest.param("https://example.org?x=@evil.com", HOLDS, id="@ behind the host"),
        pytest.param("https://sub.example.org/", FAILS, id="a name below"),
        pytest.param("https://example.org.evil.com/", FAILS, id="a name in front"),
        pytest.param("https://notexample.org/", FAILS, id="a longer name"),
        pytest.param("https://a.b.example.net/", HOLDS, id="below a domain"),
        pytest.param("https://example.net/", FAILS, id="the domain itself is not below it"),
        pytest.param("https://evilexample.net/", FAILS, id="no dot between"),
        pytest.param("https://api.example.com:8443/", HOLDS, id="the port"),
        pytest.param("https://api.example.com/", FAILS, id="another port"),
        pytest.param("https://example.org@evil.com/", UNREADABLE, id="a user"),
        pytest.param("https://evil.com@example.org/", UNREADABLE, id="a user in front of ours"),
        pytest.param("https://evil.com\\@example.org/", UNREADABLE, id="a backslash"),
        pytest.param("https://evil.com#@example.org/", FAILS, id="@ in the fragment"),
        pytest.param("https:/example.org/", UNREADABLE, id="one slash"),
        pytest.param("https:example.org", UNREADABLE, id="no slash"),
        pytest.param("//example.org/", UNREADABLE, id="no scheme"),
        pytest.param("example.org", UNREADABLE, id="a host alone"),
        pytest.param("https:///example.org/", UNREADABLE, id="three slashes"),
        pytest.param("file://example.org/x", UNREADABLE, id="a file"),
        pytest.param("javascript://example.org/%0aalert(1)", UNREADABLE, id="a script"),
        pytest.param(" https://example.org/", UNREADABLE, id="a blank before"),
        pytest.param("https://exa\tmple.org/", UNREADABLE, id="a tab that is dropped"),
        pytest.param("https://example.org\n.evil.com/", UNREADABLE, id="a line end"),
        pytest.param("https://example%2eorg/", UNREADABLE, id="a percent escape"),
        pytest.param("https://ｅxample.org/", UNREADABLE, id="a wide letter"),
        pytest.param("https://example。org/", UNREADABLE, id="another full stop"),
        pytest.param("https://еxample.org/", UNREADABLE, id="a Cyrillic letter"),
        pytest.param("https://bücher.example/", UNREADABLE, id="IDN as it is read"),
        pytest.param("https://XN--BCHER-KVA.example/", HOLDS, id="IDN as it is sent"),
        pytest.param("https://127.0.0.1/", HOLDS, id="an IPv4 address"),
        pytest.param("https://127.1/", UNREADABLE, id="a short IPv4 address"),
        pytest.param("https://2130706433/", UNREADABLE, id="an IPv4 address as a number"),
        pytest.param("https://0x7f.0.0.1/", UNREADABLE, id="a hexadecimal one"),
        pytest.param("https://0177.0.0.1/", UNREADABLE, id="an octal one"),
        pytest.param("https://127.0.0.1./", HOLDS, id="an address and a dot"),
        pytest.param("https://[::ffff:127.0.0.1]/", HOLDS, id="the same as IPv6"),
        pytest.param("https://[2001:DB8:0::1]:443/", HOLDS, id="an IPv6 address, otherwise spelt"),
        pytest.param("https://[2001:db8::2]/", FAILS, id="another IPv6 address"),
        pytest.param("https://[::1%25lo]/", UNREADABLE, id="a zone"),
        pytest.param("https://2001:db8::1/", UNREADABLE, id="IPv6 without brackets"),
        pytest.param("https://example.org:99999/", UNREADABLE, id="no port"),
        pytest.param("https://example.org:80:80/", UNREADABLE, id="two ports"),
        pytest.param("https://example..org/", UNREADABLE, id="an empty label"),
        pytest.param("https://-example.org/", UNREADABLE, id="a hyphen in front"),
        pytest.param("https://*.example.net/", UNREADABLE, id="the pattern itself"),
        pytest.param("https://example.org/" + "a" * 8192, UNREADABLE, id="too long"),
    ],
)
def test_host_in_reads_one_host_or_none(url: str, expected: Finding) -> None:
    assert look(HostIn(HOSTS), url) is expected


@every_row(
    "host",
    ["", "*", "*.", "a.*.org", "https://a.org", "u@a.org", "bücher.example", "a..org", "127.1", "*.1.2.3", "a:0",
     "a:", "::1%lo", "a b"],
)  # fmt: skip
def test_a_host_that_cannot_be_meant_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        HostIn((host,))


def test_an_ipv6_address_may_stand_without_brackets() -> None:
    assert look(HostIn(("::1",)), "http://[0:0::1]:8080/") is HOLDS


@every_row(
    "make",
    [
        pytest.param(lambda: Regex("("), id="not an expression"),
        pytest.param(lambda: Regex("(?=a)"), id="not of RE2"),
        pytest.param(lambda: Regex("(a{1000}){1000}"), id="too large once it is compiled"),
        pytest.param(lambda: Regex("a" * 1001), id="too long"),
        pytest.param(lambda: Glob(("a" * 1001,)), id="a glob that is too long"),
        pytest.param(lambda: Glob(()), id="no globs"),
        pytest.param(lambda: OneOf(tuple(range(1001))), id="too many choices"),
        pytest.param(lambda: Range(None, None), id="no range"),
        pytest.param(lambda: Range(2, 1), id="ends the wrong way round"),
        pytest.param(lambda: Range(float("inf"), None), id="infinite"),
        pytest.param(lambda: Range(True, None), id="true as an end"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(make: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        make()


def test_arguments_nested_as_deep_as_they_like_cost_no_more_than_the_rule() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    assert look(Equals([["x"]]), deep) is FAILS


def test_conditions_have_one_json_form() -> None:
    tests = [Equals(1), OneOf((1,)), Glob(("a",)), Regex("a", anywhere=True), Range(1), Below(("/a",)), HostIn(("a",))]
    assert json.loads(json.dumps([Condition("/x", test).to_json() for test in [*tests, Absent()]])) == [
        {"at": "/x", "equals": 1}, {"at": "/x", "in": [1]}, {"at": "/x", "glob": ["a"]},
        {"at": "/x", "regex": "a", "anywhere": True}, {"at": "/x", "min": 1}, {"at": "/x", "below": ["/a"]},
        {"at": "/x", "host_in": ["a"]}, {"at": "/x", "absent": True},
    ]  # fmt: skip
