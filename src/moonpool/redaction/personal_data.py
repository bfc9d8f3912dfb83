"""Personal data, if the operator enables it: e-mail addresses, phone numbers, cards and bank accounts.

Numbers are common in output of code, so each kind has a checksum or a distinctive shape: cards have a known prefix and
satisfy Luhn, IBANs have their country's length and satisfy mod 97, phone numbers have a `+`, a leading 0 or
parentheses, and separators.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from moonpool.redaction.line_finder import Kind, LineFinder, hold_from_characters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from moonpool.redaction.line_finder import FalsePositiveRule

_ALNUM: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LEFT: Final = r"(?:(?m:^)|[^A-Za-z0-9_.,/+=%#$\n-]|\\[nrt])"
_RIGHT: Final = r"(?:[^A-Za-z0-9_.,/+=%-]|[.,](?:[^A-Za-z0-9_]|\z)|\z)"

_EMAIL: Final = r"[A-Za-z0-9][A-Za-z0-9._%+-]*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,24}"
_CARD: Final = (
    r"(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|3[47][0-9]{2}|6(?:011|5[0-9]{2}|4[4-9][0-9])|35[2-8][0-9]"
    r"|3(?:0[0-5]|[68][0-9])[0-9])(?:[ -]?[0-9]){9,15}"
)
_IBAN: Final = r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?"
_PHONE: Final = (
    r"\+[1-9][0-9]{0,2}(?:[ .-]|[ ]?\(0?[0-9]{1,4}\)[ .-]?)?[0-9]{1,4}(?:[ ./-]?[0-9]{2,8}){1,5}"  # E.164
    r"|00[1-9][0-9]{0,2}[ .-]?[1-9][0-9]{1,4}(?:[ ./-]?[0-9]{2,8}){1,4}"  # 0049 30 12345678
    r"|\([0-9]{2,5}\)[ -]?[0-9]{3,4}[ .-][0-9]{3,5}"  # (212) 555-0123
    r"|[2-9][0-9]{2}[-.][2-9][0-9]{2}[-.][0-9]{4}"  # 212-555-0123
    r"|0[1-9][0-9]{1,4}[ /-][0-9]{3,8}(?:[ -][0-9]{2,5}){0,3}"  # 030 12345678, 020 7946 0018
    r"|0[1-9](?:[.][0-9]{2}){4}"  # 01.23.45.67.89
)
_PHONE_DIGITS_MIN: Final = 8
_PHONE_DIGITS_MAX: Final = 15

_NO_DIGITS: Final = bytes(sorted(set(range(256)) - set(b"0123456789")))

_DOUBLED: Final = bytes.maketrans(b"0123456789", bytes(48 + n for n in (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)))
_CARD_LENGTHS: Final = {b"3": (14, 15, 16), b"4": (13, 16, 19), b"5": (16,), b"2": (16,), b"6": (16, 19)}
_IN_DIGITS: Final = MappingProxyType({ord(letter): str(int(letter, 36)) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})
_IBAN_LENGTHS: Final[Mapping[bytes, int]] = MappingProxyType({
    country.encode(): length
    for length, countries in {
        15: "NO", 16: "BE BI", 18: "DK FI FO GL NL SD FK", 19: "MK SI", 20: "AT BA EE KZ LT LU XK MN",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "BJ BF DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC",
        32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
})  # fmt: skip


def _email(before: bytes, value: bytes, after: bytes) -> int:
    del before, after
    return 0 if value.startswith(b"git@") else len(value)  # the address of a repository


def _card(before: bytes, value: bytes, after: bytes) -> int:
    """The longest run of whole groups from the start that is a card."""
    del before, after
    end = len(value)
    while end >= 13:
        digits = value[:end].translate(None, b" -")
        if len(digits) in _CARD_LENGTHS[digits[:1]] and _luhn(digits):
            return end
        end = max(value.rfind(b" ", 0, end), value.rfind(b"-", 0, end))
    return 0


def _luhn(digits: bytes) -> bool:
    total = sum(digits[-1::-2]) + sum(digits[-2::-2].translate(_DOUBLED))
    return (total - 48 * len(digits)) % 10 == 0 and len(set(digits)) > 1


def _iban(before: bytes, value: bytes, after: bytes) -> int:
    del before, after
    length = _IBAN_LENGTHS.get(value[:2])
    if length is None:
        return 0
    end, blanks = length, value.count(b" ", 0, length)
    while end < length + blanks:
        end = length + blanks
        blanks = value.count(b" ", 0, end)
    if end > len(value) or value[end : end + 1].strip():
        return 0
    compact = value[:end].translate(None, b" ").decode()
    return end if int((compact[4:] + compact[:4]).translate(_IN_DIGITS)) % 97 == 1 else 0


def _phone(before: bytes, value: bytes, after: bytes) -> int:
    del before, after
    digits = len(value.translate(None, _NO_DIGITS))
    separators = (b"." in value) + (b"/" in value) + (b"-" in value)
    return len(value) if _PHONE_DIGITS_MIN <= digits <= _PHONE_DIGITS_MAX and separators <= 1 else 0


def _finder(name: str, shape: str, rule: FalsePositiveRule, hint: str, characters: bytes) -> LineFinder:
    return LineFinder([Kind(name, shape, rule)], hint=hint, hold=hold_from_characters(characters), counted=False)


def _email_finder() -> LineFinder:
    return _finder("email", rf"(?:\b|\\[nrtbf])({_EMAIL})", _email, r"@[A-Za-z0-9]", _ALNUM + b"._%+-@\\")


def _card_finder() -> LineFinder:
    return _finder("card", f"{_LEFT}({_CARD}){_RIGHT}", _card, _CARD, b"0123456789 -.,\\nrt")


def _iban_finder() -> LineFinder:
    return _finder("iban", f"{_LEFT}({_IBAN}){_RIGHT}", _iban, r"[A-Z]{2}[0-9]{2}[ A-Z0-9]{11}", _ALNUM + b" .,\\")


def _phone_finder() -> LineFinder:

    return _finder("phone", f"{_LEFT}({_PHONE}){_RIGHT}", _phone, _PHONE, b"0123456789+()/ .,-\\nrt")


_FINDERS: Final[Mapping[str, Callable[[], LineFinder]]] = MappingProxyType(
    {"email": _email_finder, "card": _card_finder, "iban": _iban_finder, "phone": _phone_finder}
)  # in search order: a card must not be taken for a phone number
PERSONAL_KINDS: Final = tuple(_FINDERS)


def personal_finders(kinds: Iterable[str]) -> list[LineFinder]:
    """Finders of the named kinds, in the order in which they must search."""
    wanted = set(kinds)
    assert wanted <= set(PERSONAL_KINDS), wanted
    return [make() for name, make in _FINDERS.items() if name in wanted]
