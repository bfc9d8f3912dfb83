"""A web site of a few pages, over HTTP or TLS under an authority of its own."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Site:
    """Answers GET with a page and closes the connection."""

    pages: Mapping[str, bytes]

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        page = self.pages.get(head.split(b" ")[1].partition(b"?")[0].decode())
        status = b"404 Not Found" if page is None else b"200 OK"
        kind = b"text/html" if page is not None and page.startswith(b"<") else b"application/octet-stream"
        writer.write(
            b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
            % (status, kind, len(page or b""), page or b"")
        )
        await writer.drain()


def authority(folder: Path, *names: str) -> tuple[bytes, ssl.SSLContext]:
    """The certificate of a new authority, as PEM, and a server's context for `names` under it."""
    now = datetime.now(UTC)
    key, own_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stand-in authority")])

    def certificate(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )

    ca = certificate(issuer, key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    own = certificate(x509.Name([]), own_key.public_key()).add_extension(
        x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=True
    )
    pem = ca.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    chain, private = folder / "server.pem", folder / "server.key"
    chain.write_bytes(own.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        own_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, private)
    return pem, context
