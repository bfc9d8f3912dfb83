"""Personal data, by choice of the operator: e-mail addresses, phone numbers, cards and bank accounts.

Numbers are all over the output of code, so each kind has a proof or a shape that chance rarely gives: cards begin like
a card and satisfy Luhn, IBANs have their country's length and satisfy mod 97, phone numbers have a `+`, a leading 0 or
parentheses, and separators.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from moonpool.broker.line_finder import Kind, LineFinder, hold_from_characters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from moonpool.broker.line_finder import Found

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

_DOUBLED: Final = bytes.maketrans(b"0123456789", bytes(48 + n for n in (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)))
_CARD_LENGTHS: Final = {b"3": (14, 15, 16), b"4": (13, 16, 19), b"5": (16,), b"2": (16,), b"6": (16, 19)}
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


def _email(place: Found) -> int:
    return 0 if place.value.startswith(b"git@") else len(place.value)  # an address of a repository


def _card(place: Found) -> int:
    """The longest run of whole groups from the start that is a card."""
    found = place.value
    end = len(found)
    while end >= 13:
        digits = found[:end].translate(None, b" -")
        if len(digits) in _CARD_LENGTHS[digits[:1]] and _luhn(digits):
            return end
        end = max(found.rfind(b" ", 0, end), found.rfind(b"-", 0, end))
    return 0


def _luhn(digits: bytes) -> bool:
    total = sum(digits[-1::-2]) + sum(digits[-2::-2].translate(_DOUBLED))
    return (total - 48 * len(digits)) % 10 == 0 and len(set(digits)) > 1


def _iban(place: Found) -> int:
    found = place.value
    length = _IBAN_LENGTHS.get(found[:2])
    if length is None:
        return 0
    end = taken = 0
    while taken < length and end < len(found):
        taken += found[end] != 0x20
        end += 1
    compact = found[:end].translate(None, b" ")
    if taken < length or found[end : end + 1].strip():
        return 0
    return end if int("".join(str(int(chr(sign), 36)) for sign in compact[4:] + compact[:4])) % 97 == 1 else 0


def _phone(place: Found) -> int:
    found = place.value
    digits = sum(0x30 <= sign <= 0x39 for sign in found)
    separators = len(set(re.findall(rb"[./-]", found)))
    return len(found) if _PHONE_DIGITS_MIN <= digits <= _PHONE_DIGITS_MAX and separators <= 1 else 0


def _finder(name: str, shape: str, judge: Callable[[Found], int], hint: str, characters: bytes) -> LineFinder:
    return LineFinder([Kind(name, shape, judge)], hint=hint, hold=hold_from_characters(characters))


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
)  # in the order in which they search: a card must not be taken for a phone number
PERSONAL_KINDS: Final = tuple(_FINDERS)


def personal_finders(kinds: Iterable[str]) -> list[LineFinder]:
    """Finders of the named kinds, in the order in which they must search."""
    wanted = set(kinds)
    assert wanted <= set(PERSONAL_KINDS), wanted
    return [make() for name, make in _FINDERS.items() if name in wanted]
