"""Requests between workers are signed."""

from __future__ import annotations

import pytest

from moldau.connect.herder.refusals import BadRequest, Forbidden
from moldau.connect.herder.signing import ALGORITHM, SIGNATURE, is_outdated, sign, verify
from moldau.connect.storage.configs import SessionKey

KEY = SessionKey("a2V5", "HmacSHA256", 100)
BODY = b"[]"


def test_what_a_worker_signed_is_taken() -> None:
    headers = sign(KEY, BODY)

    verify(KEY, BODY, headers[SIGNATURE], headers[ALGORITHM])


@pytest.mark.parametrize(
    ("signature", "algorithm", "refusal"),
    [
        (None, "HmacSHA256", BadRequest),
        ("AAAA", None, BadRequest),
        ("AAAA", "HmacMD5", BadRequest),
        ("AAAA", "HmacSHA256", Forbidden),
        ("?", "HmacSHA256", Forbidden),
    ],
)
def test_what_nobody_signed_is_refused(
    signature: str | None, algorithm: str | None, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        verify(KEY, BODY, signature, algorithm)


def test_a_changed_body_and_a_missing_key_are_refused() -> None:
    headers = sign(KEY, BODY)

    with pytest.raises(Forbidden):
        verify(KEY, b"[{}]", headers[SIGNATURE], headers[ALGORITHM])
    with pytest.raises(Forbidden):
        verify(None, BODY, headers[SIGNATURE], headers[ALGORITHM])


def test_a_key_grows_old() -> None:
    assert is_outdated(None, 0, 1_000)
    assert not is_outdated(KEY, 1_099, 1_000)
    assert is_outdated(KEY, 1_100, 1_000)
