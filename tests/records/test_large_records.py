"""Records of compressed batches that are larger than their topic allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from moldau.records import Batch, Codec, InvalidRecord, encode_batch, open_batch, retain, validate
from moldau.records.codecs import LargeRecord
from moldau.records.parts import entries_by_part, entries_in_parts, first_since, scan_in_parts
from moldau.records.validation import Rules

NOW: Final = 1_700_000_000_000
REST: Final = 5
"""Bytes of a record besides its value and the length of that, without its own length: its key is
null, and its deltas are small."""
LONG_DELTAS: Final = 2
"""More bytes of a record that is far behind the first one."""
PACKED: Final = tuple(codec for codec in Codec if codec is not Codec.NONE)


def batch(*sizes: int, codec: Codec = Codec.GZIP) -> bytes:
    """A batch of records with values of these sizes, a millisecond apart."""
    rows = [(NOW + at, None, b"v" * size, ()) for at, size in enumerate(sizes)]
    return bytes(encode_batch(rows, 0, codec=codec))


def body(value_bytes: int) -> int:
    """How large a record of a small batch is, without its length."""
    length_bytes = 1 if value_bytes < 64 else 2 if value_bytes < 8192 else 3
    return REST + length_bytes + value_bytes


READERS: Final[tuple[Callable[[Batch, int], Any], ...]] = (
    lambda found, most: scan_in_parts(found, 0, record_bytes_max=most),
    lambda found, most: list(entries_in_parts(found, record_bytes_max=most)),
    lambda found, most: list(entries_by_part(found, record_bytes_max=most)),
    lambda found, most: first_since(found, NOW + 99, 0, record_bytes_max=most),
    lambda found, most: retain(found, lambda entry: True, record_bytes_max=most),
    lambda found, most: validate(found.data, Rules(record_bytes_max=most)),
)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("size", [1, 57, 58, 63, 64, 100, 8191, 8192, 300_000, 700_000])
def test_a_record_may_be_as_large_as_the_limit(
    read: Callable[[Batch, int], Any], size: int
) -> None:
    found = open_batch(batch(0, size, 0))
    read(found, body(size))
    with pytest.raises((LargeRecord, InvalidRecord)) as refused:
        read(found, body(size) - 1)
    assert refused.value.context["size_bytes"] == body(size)
    assert refused.value.context["limit"] == body(size) - 1
    assert refused.value.context["offset"] == 1


@pytest.mark.parametrize("read", READERS)
def test_without_compression_a_record_is_as_large_as_it_is(
    read: Callable[[Batch, int], Any],
) -> None:
    read(open_batch(batch(500, codec=Codec.NONE)), 100)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("is_in_parts", [True, False])
def test_the_limit_is_for_a_record_and_not_for_its_batch(codec: Codec, is_in_parts: bool) -> None:
    rules = Rules(record_bytes_max=body(50) + LONG_DELTAS)
    many = batch(*[50] * 6_000, codec=codec)
    assert validate(many, rules, is_in_parts=is_in_parts).batch.header.record_count == 6_000
    with pytest.raises(InvalidRecord, match=r"max\.decompressed\.message\.bytes"):
        validate(batch(*[50] * 6_000, 51, codec=codec), rules, is_in_parts=is_in_parts)


def test_a_lookup_reads_up_to_what_it_finds() -> None:
    found = open_batch(batch(1, 1, 500, 1))
    at = first_since(found, NOW + 1, 0, record_bytes_max=100)
    assert at is not None
    assert at.offset == 1
    with pytest.raises(LargeRecord):
        first_since(found, NOW + 2, 0, record_bytes_max=100)
    with pytest.raises(LargeRecord):
        first_since(found, NOW + 3, 0, record_bytes_max=100)
