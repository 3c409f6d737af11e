"""The name of a certificate's subject, against Java's own answers."""

from __future__ import annotations

from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from moldau.broker.security.distinguished_name import name_of, subject_name
from moldau.errors import MalformedMessage
from tests.broker.security.names import ask_java, kept, name, names
from tests.link.certificates import Authority
from tests.peers.apache_kafka import fetch_or_skip


def test_each_name_is_written_as_java_writes_it() -> None:
    answers = kept()
    assert {each.hex(): name_of(each) for each in names()} == answers
    assert len(answers) > 100


@pytest.mark.deep
def test_java_still_answers_so() -> None:
    fetch_or_skip()
    assert ask_java() == kept()


def test_the_subject_of_a_certificate_is_found() -> None:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme, Inc."),
            x509.NameAttribute(NameOID.COMMON_NAME, "alice"),
        ]
    )
    issued = Authority().issue("alice", name=subject).certificate.public_bytes(Encoding.DER)
    assert subject_name(issued) == r"CN=alice,O=Acme\, Inc.,C=DE"


@pytest.mark.parametrize("at", range(0, 200, 7))
def test_a_certificate_that_is_cut_off_or_wrong_is_malformed(at: int) -> None:
    issued = Authority().issue("alice").certificate.public_bytes(Encoding.DER)
    with pytest.raises(MalformedMessage):
        subject_name(issued[:at])
    wrong = bytearray(issued)
    wrong[at] ^= 0xFF
    with suppress(MalformedMessage):
        subject_name(bytes(wrong))


@pytest.mark.parametrize(
    "der", [b"", b"\x30", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x31\x00", name()[:-1]]
)
def test_a_name_that_is_none_is_malformed(der: bytes) -> None:
    with pytest.raises(MalformedMessage):
        name_of(der)
