"""Control batches: framing only."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors import CorruptRecord
from tests.records.golden import BATCHES
from tests.records.strategies import NOW


def test_kafkas_marker_is_read(records: Any) -> None:
    (marker,) = records.control_records(records.open_batch(BATCHES["commit"]))
    assert marker == (99, NOW, records.ControlType.COMMIT, bytes.fromhex("000000000011"))
    header = records.read_header(BATCHES["commit"])
    assert header.is_control
    assert header.is_transactional


def test_a_control_batch_may_say_several_things(records: Any) -> None:
    kinds = records.ControlType
    said = [(kinds.SNAPSHOT_HEADER, b"h"), (kinds.KRAFT_VERSION, b"v"), (kinds.KRAFT_VOTERS, b"w")]
    batch = records.open_batch(records.encode_control_batch(said, NOW, 5, leader_epoch=3))
    found = records.control_records(batch)
    assert [(record.type, record.value) for record in found] == said
    assert [record.offset for record in found] == [5, 6, 7]
    assert not batch.header.is_transactional
    assert records.validate(batch.data, records.LOGGED)


def test_types_that_nobody_knows_are_kept(records: Any) -> None:
    builder = records.BatchBuilder(is_control=True)
    builder.append(NOW, b"\0\0\0\x63", b"from the future")
    (record,) = records.control_records(records.open_batch(builder.build()))
    assert (record.type, record.value) == (99, b"from the future")


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_keys_without_a_type_are_refused(records: Any, key: bytes | None) -> None:
    builder = records.BatchBuilder(is_control=True)
    builder.append(NOW, key, b"")
    with pytest.raises(CorruptRecord, match="control record"):
        records.control_records(records.open_batch(builder.build()))


def test_the_numbers_are_kafkas(records: Any) -> None:
    assert {kind.name: kind.value for kind in records.ControlType} == {
        "ABORT": 0,
        "COMMIT": 1,
        "LEADER_CHANGE": 2,
        "SNAPSHOT_HEADER": 3,
        "SNAPSHOT_FOOTER": 4,
        "KRAFT_VERSION": 5,
        "KRAFT_VOTERS": 6,
    }
