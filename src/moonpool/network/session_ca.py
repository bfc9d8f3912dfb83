"""The certificate authority of one session: for domains with a credential the host stands in for the server.

Clients in the sandbox trust it because its certificate is in the bundle that their environment names
(`moonpool.sandboxes.base.TRUST_VARIABLES`), behind the system's own. Nothing but the session's sandboxes trusts it, and
its keys are gone with it. Each of its certificates is constrained to the hosts that it was made for; hosts that
are allowed later get one of their own.

SECURITY: keys are in the memory of this process only, never on a disk: `ssl` reads certificates from files, so it is
given an anonymous one in memory. No key and no credential is in `bundle()`.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import threading
from collections import OrderedDict
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from moonpool.network.roots import restrict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CONTEXTS_MAX: Final = 64
"""Hosts whose certificates are kept; of more, the least recently used is made again."""
AUTHORITY_LIFETIME: Final = timedelta(days=30)
LEAF_LIFETIME: Final = timedelta(hours=24)
_CLOCK_DIFFERENCE: Final = timedelta(hours=1)


class _Issuer(NamedTuple):
    key: EllipticCurvePrivateKey
    certificate: x509.Certificate


class SessionAuthority:
    """Issues certificates for the session's domains with a credential. Safe to use from several threads."""

    def __init__(self, hosts: Iterable[str], *, roots: bytes) -> None:
        """`hosts` in lower case; `roots` are all that servers are verified against (`trusted_roots`)."""
        self.roots = roots
        self._lock = threading.Lock()
        self._issuers: dict[str, _Issuer] = {}
        self._contexts: OrderedDict[str, tuple[datetime, ssl.SSLContext]] = OrderedDict()
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self.cover(hosts)

    def cover(self, hosts: Iterable[str]) -> bool:
        """Issue for these hosts too; whether `bundle()` has changed by it."""
        with self._lock:
            missing = sorted(set(hosts) - self._issuers.keys())
            if missing:
                self._issuers |= dict.fromkeys(missing, _new_issuer(missing))
            return bool(missing)

    def bundle(self) -> bytes:
        """PEM of all that clients in the sandbox trust: the system's and the operator's roots, and this authority."""
        with self._lock:
            issuers = {issuer.certificate.serial_number: issuer for issuer in self._issuers.values()}
        own = [issuer.certificate.public_bytes(Encoding.PEM) for issuer in issuers.values()]
        return b"\n".join([self.roots, *own])

    def server_context(self, host: str) -> ssl.SSLContext:
        """To stand in for `host`; clients must name it as server name. Takes milliseconds; for a thread.

        Raises ValueError for a host that it was not made for.
        """
        now = datetime.now(UTC)
        with self._lock:
            made = self._contexts.pop(host, None)
            if made is None or made[0] < now:
                made = (now + LEAF_LIFETIME / 2, self._new_context(host, now))
            self._contexts[host] = made
            if len(self._contexts) > CONTEXTS_MAX:
                self._contexts.popitem(last=False)
            return made[1]

    def _new_context(self, host: str, now: datetime) -> ssl.SSLContext:
        issuer = self._issuers.get(host)
        if issuer is None:
            raise ValueError(f"the session's certificate authority is not for {host}")
        leaf = _new_leaf(host, issuer, self._leaf_key, now)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        restrict(context)
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        context.sni_callback = _only(host)
        key = self._leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _load(context, key + leaf.public_bytes(Encoding.PEM))
        return context


def _only(host: str) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], int | None]:
    """Refuses a handshake whose server name is not `host`, or that has none."""

    def check(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> int | None:
        return None if name is not None and name.lower() == host else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    return check


def _load(context: ssl.SSLContext, chain: bytes) -> None:
    # SECURITY: the file has no name, is in no folder and is closed at once; no other process can open it.
    with closing(os.fdopen(os.memfd_create("certificate", os.MFD_CLOEXEC), "wb")) as file:
        file.write(chain)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")


def _new_issuer(hosts: Iterable[str]) -> _Issuer:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Moonpool, one session")])
    every_address = [x509.IPAddress(ipaddress.ip_network(net)) for net in ("0.0.0.0/0", "::/0")]
    constraints = x509.NameConstraints([x509.DNSName(host) for host in hosts], every_address)
    now = datetime.now(UTC)
    certificate = (
        _builder(name, name, key, key, now, AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(issues=True), critical=True)
        .add_extension(constraints, critical=True)
        .sign(key, hashes.SHA256())
    )
    return _Issuer(key, certificate)


def _new_leaf(host: str, issuer: _Issuer, key: EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Moonpool, one session")])
    return (
        _builder(name, issuer.certificate.subject, key, issuer.key, now, LEAF_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(issues=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(issuer.key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    issuer_key: EllipticCurvePrivateKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_DIFFERENCE)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(authority_key, critical=False)
    )


def _usage(*, issues: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not issues,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=issues,
        crl_sign=issues,
        encipher_only=False,
        decipher_only=False,
    )
