"""Which domains code may reach, as operators and applications write it. Pure.

A domain is `example.com` (that name alone) or `*.example.com` (every name below it, not itself), with `:PORT` where it
is not the ports 80 and 443. There is no way to write "everything", an address, or a whole top-level domain.

SECURITY: a name whose last label is a number is an address to resolvers (`127.1`, `0x7f.1`) and is never a domain here.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Iterable

PORTS: Final = (80, 443)
DOMAINS_MAX: Final = 1000
"""Rules of one session."""
SECRET_CHARS_MIN: Final = 8
"""Of a credential: in answers shorter ones could not be told from other text."""
_CHARS_MAX: Final = 253
_LISTED_CHARS_MAX: Final = 1000  # of a message that names all that is allowed
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,8190}[\x21-\x7e])?")
_NO_CREDENTIAL: Final = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "te", "trailer", "expect", "accept-encoding"),
        *("connection", "proxy-connection", "keep-alive", "upgrade"),
    }
)
_EXAMPLE: Final = "write a name such as docs.example.com, or *.example.com for all names below it"


class NetworkRuleError(MoonpoolError):
    """A domain or credential that was to be allowed cannot be used. Nothing was allowed."""

    code = "network_rule_invalid"
    fault = Fault.CALLER


@dataclass(frozen=True, slots=True)
class HeaderCredential:
    """A header that the host adds to requests to one domain. The sandbox never sees its value.

    Raises NetworkRuleError for what cannot stand in a header.
    """

    header: str  # its name, such as Authorization
    value: str = field(repr=False)  # all that stands behind the colon, `Bearer` too

    def __post_init__(self) -> None:
        if not _HEADER_NAME.fullmatch(self.header):
            raise NetworkRuleError(f"{self.header[:80]!r} cannot be the name of a header such as Authorization")
        if self.header.lower() in _NO_CREDENTIAL:
            raise NetworkRuleError(f"the header {self.header} belongs to the message itself and holds no credential")
        if not _HEADER_VALUE.fullmatch(self.value):
            raise NetworkRuleError(
                f"the value for the header {self.header} is empty, too long or has characters other than visible ASCII"
            )
        if len((self.value.partition(" ")[2] or self.value).strip()) < SECRET_CHARS_MIN:
            raise NetworkRuleError(
                f"the value for the header {self.header} is too short to be found in answers; it has at least "
                f"{SECRET_CHARS_MIN} characters, also without a word such as Bearer"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRule:
    """One allowed domain. `parse_domain` makes it of what people write."""

    pattern: str  # lower case, in ASCII, without a dot at the end
    ports: tuple[int, ...] = PORTS
    credential: HeaderCredential | None = None
    allow_private: bool = False
    """SECURITY: only for the package index that the operator configured, which may be a machine of the own network."""

    def covers(self, host: str, port: int) -> bool:
        """Whether a request to `host`, as `host_name` gives it, is allowed by this rule."""
        named = host.endswith(self.pattern[1:]) if self.pattern.startswith("*.") else host == self.pattern
        return named and port in self.ports

    def within(self, other: DomainRule) -> bool:
        """Whether `other` covers all that this one does."""
        return set(self.ports) <= set(other.ports) and self._names_within(other)

    def overlaps(self, other: DomainRule) -> bool:
        """Whether a request can be covered by both."""
        return not set(self.ports).isdisjoint(other.ports) and (self._names_within(other) or other._names_within(self))

    def _names_within(self, other: DomainRule) -> bool:
        below = other.pattern.startswith("*.") and self.pattern.removeprefix("*.").endswith(other.pattern[1:])
        return self.pattern == other.pattern or below

    def __str__(self) -> str:
        return self.pattern if self.ports == PORTS else f"{self.pattern}:{','.join(map(str, self.ports))}"


@dataclass(frozen=True, slots=True)
class NetworkRules:
    """All domains that one session may reach. What no rule covers is refused. Raises NetworkRuleError for too many."""

    domains: tuple[DomainRule, ...] = ()

    def __post_init__(self) -> None:
        if len(self.domains) > DOMAINS_MAX:
            raise NetworkRuleError(f"{len(self.domains)} domains are too many: a session may have {DOMAINS_MAX}")

    def rule_for(self, host: str, port: int) -> DomainRule | None:
        """The rule that allows `host:port`: the exact one before any `*.`, the longest of those, one with a credential
        before one without.
        """
        covering = [rule for rule in self.domains if rule.covers(host, port)]
        return max(covering, key=_closeness, default=None)

    def allowing(self, more: Iterable[DomainRule]) -> NetworkRules:
        """These and `more`, which replace rules of the same pattern and ports."""
        kept = {(rule.pattern, rule.ports): rule for rule in (*self.domains, *more)}
        return NetworkRules(tuple(kept.values()))

    def denying(self, patterns: Iterable[str]) -> NetworkRules:
        """These without the rules of `patterns`, as they were written when they were allowed.

        Raises NetworkRuleError for what is not among them, and for what others would still allow, of it or of a part.
        """
        denied = tuple(map(parse_domain, patterns))
        gone = {(rule.pattern, rule.ports) for rule in denied}
        kept = tuple(rule for rule in self.domains if (rule.pattern, rule.ports) not in gone)
        for rule in denied:
            if others := [str(one) for one in kept if one.overlaps(rule)]:
                raise NetworkRuleError(f"{rule} would still be allowed by {', '.join(others)}; deny that, too")
            if (rule.pattern, rule.ports) not in {(one.pattern, one.ports) for one in self.domains}:
                listed = ", ".join(map(str, self.domains)) or "none is"
                raise NetworkRuleError(f"{rule} is not among the allowed domains: {listed}"[:_LISTED_CHARS_MAX])
        return NetworkRules(kept)


def _closeness(rule: DomainRule) -> tuple[bool, int, bool]:
    return not rule.pattern.startswith("*."), len(rule.pattern), rule.credential is not None


def parse_domain(text: str, credential: HeaderCredential | None = None) -> DomainRule:
    """A rule from what a person writes: `example.org`, `*.example.com`, `example.com:8443`. Raises NetworkRuleError."""
    if "://" in text:
        raise NetworkRuleError(f"{text[:100]!r} is an address; write the domain alone, without `http://` or a path")
    name, colon, port_text = text.strip().rpartition(":")
    if not colon:
        name, port_text = text.strip(), ""
    ports = PORTS if not colon else (_port(port_text, text),)
    wildcard = name.startswith("*.")
    host = host_name(name.removeprefix("*."))
    if host is None:
        raise NetworkRuleError(f"{text[:100]!r} is no domain that can be allowed; {_EXAMPLE}")
    if "." not in host:
        what = f"{text[:100]!r} is a whole top-level domain" if wildcard else f"{host!r} is no full domain name"
        raise NetworkRuleError(f"{what}; {_EXAMPLE}")
    if wildcard and credential is not None:
        raise NetworkRuleError(f"a credential needs one exact domain, not {text[:100]!r}")
    return DomainRule(pattern=f"*.{host}" if wildcard else host, ports=ports, credential=credential)


def parse_domains(texts: Iterable[str]) -> NetworkRules | None:
    """The rules for a list of domains; None, which is no network, for an empty one. Raises NetworkRuleError."""
    rules = tuple(map(parse_domain, texts))
    return NetworkRules().allowing(rules) if rules else None


def index_rule(host: str, port: int) -> DomainRule:
    """The rule for a package index that the operator configured: its name may be short, or be an address.

    SECURITY: its address may be private. Never for a name that an application, a model or code gave.
    Raises NetworkRuleError.
    """
    name = address_literal(host) or host_name(host)
    if name is None:
        raise NetworkRuleError(f"{host[:100]!r} is neither a host name nor an address")
    return DomainRule(pattern=name, ports=(port,), allow_private=True)


def host_name(text: str) -> str | None:
    """A host name in the one form that is compared: ASCII, lower case, without the dot at its end. None: it is none."""
    name = text.removesuffix(".")
    if not name.isascii():
        import idna  # noqa: PLC0415  most names are ASCII

        try:
            name = idna.encode(name, uts46=True).decode()
        except idna.IDNAError:
            return None
    name = name.lower()
    labels = name.split(".")
    if len(name) > _CHARS_MAX or not all(map(_LABEL.fullmatch, labels)) or _NUMBER.fullmatch(labels[-1]):
        return None
    return name


def address_literal(text: str) -> str | None:
    """An IP address in its one form, also from square brackets; None for anything else.

    SECURITY: none with a zone, behind whose `%` any text may stand, such as `.example.com`.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if "%" in bare:
        return None
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return None


def _port(text: str, whole: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65_536):
        raise NetworkRuleError(f"{whole[:100]!r} has no port between 1 and 65535 behind its colon; {_EXAMPLE}")
    return int(text)
