"""A certificate for localhost, made for a module of tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

OPENSSL = shutil.which("openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost and its key, in one file."""
    if OPENSSL is None:
        pytest.skip("there is no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    path = folder / "localhost.pem"
    subprocess.run(  # noqa: S603 (fixed arguments)
        [OPENSSL, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(path), "-out", str(folder / "certificate.pem")],
        check=True,
        capture_output=True,
    )  # fmt: skip
    with path.open("a") as both:
        both.write((folder / "certificate.pem").read_text())
    return path
