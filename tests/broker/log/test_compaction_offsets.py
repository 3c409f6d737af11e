"""The map of keys to their newest offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.compaction_offsets import NOT_FOUND, SLOT_BYTES, OffsetMap


@given(st.lists(st.binary(max_size=3), max_size=300))
def test_it_knows_what_a_dict_would(keys: list[bytes]) -> None:
    offsets, expected = OffsetMap(400 * SLOT_BYTES), {}
    for offset, key in enumerate(keys):
        offsets.put(key, offset)
        expected[key] = offset
    assert len(offsets) == len(expected)
    assert {key: offsets.get(key) for key in keys} == expected
    assert offsets.get(b"never") == NOT_FOUND


def test_it_takes_what_its_memory_grants() -> None:
    offsets = OffsetMap(10 * SLOT_BYTES, 0.8)
    assert offsets.capacity == 8
    for index in range(8):
        assert offsets.has_room_for(1)
        offsets.put(b"%d" % index, index)
    assert not offsets.has_room_for(1)
    offsets.put(b"3", 99)  # a known key needs no room
    assert offsets.get(b"3") == 99
    with pytest.raises(AssertionError):
        offsets.put(b"new", 100)


def test_it_grows_only_while_it_is_empty() -> None:
    offsets = OffsetMap(1)
    offsets.grow(100)
    assert offsets.capacity >= 100
    for index in range(100):
        offsets.put(b"%d" % index, index)
    assert [offsets.get(b"%d" % index) for index in range(100)] == list(range(100))
    with pytest.raises(AssertionError):
        offsets.grow(200)
