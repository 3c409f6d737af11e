"""Whether the bodies of requests to an S3 server are hashed and signed: not over TLS."""

from __future__ import annotations

import os

import pytest

from moldau.objects.obstore_bucket import ObstoreBucket
from moldau.objects.store_address import StoreConfig, parse_address
from moldau.runtime.real import RealRuntime

ADDRESS = parse_address("s3://bucket/prefix")


@pytest.mark.parametrize(
    ("endpoint", "variable", "is_unsigned"),
    [
        (None, None, True),
        ("https://store:9000", None, True),
        ("http://store:9000", None, False),
        (None, "https://store:9000", True),
        (None, "http://store:9000", False),
        ("https://store:9000", "http://another:9000", True),
        ("http://store:9000", "https://another:9000", False),
    ],
)
def test_a_body_is_signed_unless_tls_protects_it(
    monkeypatch: pytest.MonkeyPatch, endpoint: str | None, variable: str | None, is_unsigned: bool
) -> None:
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    if variable is not None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", variable)
    bucket = ObstoreBucket(RealRuntime("test"), StoreConfig(ADDRESS, endpoint, "us-east-1"))
    given = {each.config["unsigned_payload"] for each in (bucket._store, bucket._upload_store)}
    assert given == {str(is_unsigned).lower()}
