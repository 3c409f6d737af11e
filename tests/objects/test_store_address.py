"""Addresses of stores, as users write them."""

from __future__ import annotations

import pytest

from moldau.errors import ConfigError
from moldau.objects.store_address import StoreAddress, StoreKind, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("s3://bucket", StoreAddress(StoreKind.S3, "bucket")),
        ("s3://bucket/a/b/", StoreAddress(StoreKind.S3, "bucket", "a/b")),
        ("gs://bucket/a", StoreAddress(StoreKind.GOOGLE, "bucket", "a")),
        ("az://container/a", StoreAddress(StoreKind.AZURE, "container", "a")),
        ("file:///var/remote", StoreAddress(StoreKind.FILE, "/var/remote")),
    ],
)
def test_an_address_has_a_kind_a_bucket_and_a_prefix(text: str, address: StoreAddress) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "bucket/prefix",
        "http://bucket/prefix",
        "s3:///prefix",
        "s3://key:secret@bucket/prefix",
        "s3://bucket/a//b",
        "s3://bucket/../b",
        "s3://bucket?region=x",
        "file://host/path",
        "file://",
    ],
)
def test_an_address_that_cannot_work_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_address(text)
