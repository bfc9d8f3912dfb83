"""Whom HTTP clients trust: read once for all of them, and again when it has changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import httpx2

from moonpool.net.trust import system_trust
from network.tls_hosts import signer

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_machines_roots_are_read_once() -> None:
    assert system_trust() is system_trust()
    assert system_trust().get_ca_certs() == httpx2.create_ssl_context().get_ca_certs()


def test_other_roots_are_read_when_a_variable_or_its_file_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "roots.pem"
    file.write_bytes(signer("one").roots)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    first = system_trust().get_ca_certs()
    file.write_bytes(signer("other").roots)
    os.utime(file, ns=(1, 1))  # it may have been written within one tick of the clock
    second = system_trust().get_ca_certs()

    assert len(first) == len(second) == 1
    assert first != second
