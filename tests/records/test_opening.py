"""The kernels' short cut for what consumers fetch: many batches in one call, where nothing about
them is unusual. What it gives is what opening them one by one gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import CorruptRecord
from tests.records.editions import KERNEL, edition
from tests.records.lying_batch import lying
from tests.records.strategies import NOW, damaged, rows

EPOCH = {"partition_leader_epoch": 7}
COUNTS = (2, 1, 3)


def batches(records: Any, *counts: int, **claims: int) -> list[bytes]:
    """So many records each, one behind the other."""
    found: list[bytes] = []
    offset = 0
    for count in counts:
        given_rows = [(NOW + index, b"k", b"v%d" % index, (("h", None),)) for index in range(count)]
        made = records.encode_batch(given_rows, offset)
        found.append(bytes(lying(bytes(made), **{**EPOCH, **claims})))
        offset += count
    return found


def opened(kernel: Any, data: Any, position: int = 0, wanted: int = 100, crc: bool = True) -> Any:
    """In terms that do not depend on the kernel; the buffer is as it was."""
    before = bytes(data)
    answer = kernel.decode_usual(data, position, wanted, crc, "t", 3)
    assert bytes(data) == before
    return answer and (fields(answer.records), *answer[1:])


def fields(records: list[Any]) -> list[tuple[object, ...]]:
    return [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in records]


def one_by_one(records: Any, data: bytes, position: int, wanted: int, crc: bool) -> Any:
    """The same, by what opens any batch."""
    found: list[Any] = []
    last = None
    try:
        for batch in records.walk(data, position):
            header = batch.header
            kind = header.partition_leader_epoch, header.attributes
            is_other = last is not None and (kind != last[2:] or header.base_offset < last[1])
            is_unusual = header.attributes & 0x37 or header.record_count < 1
            if len(found) >= wanted or is_other or is_unusual:
                break
            if not 0 <= header.base_offset < 2**63 - 2**31:
                break
            if crc:
                batch.check_crc()
            found += fields(batch.records())
            last = (batch.end, header.next_offset, *kind)
    except CorruptRecord:
        pass
    return last and (found, *last)


@pytest.mark.parametrize("wanted", range(1, 8))
def test_batches_are_opened_until_it_is_enough(kernel: Any, records: Any, wanted: int) -> None:
    made = batches(records, *COUNTS)
    found, position, next_offset, epoch, attributes = opened(kernel, b"".join(made), 0, wanted)
    expected = next((each for each in (2, 3, 6) if each >= wanted), 6)
    assert [each[0] for each in found] == list(range(expected))
    assert (next_offset, epoch, attributes) == (expected, 7, 0)
    assert position == sum(map(len, made[: (2, 3, 6).index(expected) + 1]))


def test_it_goes_on_from_any_batch_of_any_buffer(kernel: Any, records: Any) -> None:
    made = batches(records, *COUNTS)
    data = memoryview(b"front" + b"".join(made) + made[0][:-1])[5:]
    found, position, *_ = opened(kernel, data, len(made[0]))
    assert [each[0] for each in found] == [2, 3, 4, 5]
    assert position == len(data) - len(made[0]) + 1
    for crc in (True, False):
        assert opened(kernel, data, position, crc=crc) is None, "it is cut short"
    assert opened(kernel, data, len(data)) is None


@pytest.mark.parametrize(
    "claims",
    [
        {"partition_leader_epoch": 8},
        {"partition_leader_epoch": -1},
        {"attributes": 0x08},
        {"attributes": 0x40},
        {"attributes": -0x8000},
    ],
    ids=str,
)
def test_another_epoch_and_other_attributes_are_for_the_next_call(
    kernel: Any, records: Any, claims: dict[str, int]
) -> None:
    first, second = batches(records, 2, 3)
    changed = bytes(lying(second, **claims))
    found, position, next_offset, epoch, _ = opened(kernel, first + changed)
    assert (len(found), position, next_offset, epoch) == (2, len(first), 2, 7)
    found, _, next_offset, *kind = opened(kernel, first + changed, position)
    assert (len(found), next_offset) == (3, 5)
    assert kind == [claims.get("partition_leader_epoch", 7), claims.get("attributes", 0)]


@pytest.mark.parametrize("base_offset", [0, 1])
def test_offsets_that_were_there_already_are_for_the_next_call(
    kernel: Any, records: Any, base_offset: int
) -> None:
    first, second = batches(records, 2, 3)
    changed = bytes(lying(second, base_offset=base_offset))
    found, position, next_offset, *_ = opened(kernel, first + changed + second)
    assert (len(found), position, next_offset) == (2, len(first), 2)


def test_the_time_of_the_broker_is_that_of_all_records(kernel: Any, records: Any) -> None:
    (made,) = batches(records, 3, attributes=0x08, max_timestamp=NOW + 99)
    found, *_ = opened(kernel, made)
    assert [each[1] for each in found] == [NOW + 99] * 3


@pytest.mark.parametrize(
    "claims",
    [
        *({"attributes": each} for each in (1, 2, 3, 4, 7, 0x10, 0x20, 0x30)),
        {"magic": 1},
        {"batch_length": 48},
        {"batch_length": -1},
        {"batch_length": 2**31 - 1},
        {"base_offset": -1},
        {"base_offset": 2**63 - 1},
        {"base_offset": 2**63 - 2**31, "last_offset_delta": 2**31 - 1},
        {"last_offset_delta": 1},
        {"last_offset_delta": -1},
        {"record_count": 0},
        {"record_count": -1},
        {"record_count": 2},
        {"record_count": 4},
        {"record_count": 2**31 - 1},
        {"base_timestamp": 2**63 - 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("crc", [True, False])
def test_whatever_is_not_usual_is_for_a_closer_look(
    kernel: Any, records: Any, claims: dict[str, int], crc: bool
) -> None:
    first, second, third = batches(records, *COUNTS)
    unusual = bytes(lying(third, **claims))
    assert opened(kernel, unusual, crc=crc) is None
    found, position, *_ = opened(kernel, first + second + unusual + first, crc=crc)
    assert (len(found), position) == (3, len(first + second))


def test_an_empty_batch_is_for_a_closer_look(kernel: Any, records: Any) -> None:
    (made,) = batches(records, 1)
    empty = lying(made[:61], record_count=0, batch_length=49)
    assert opened(kernel, bytes(empty) + made) is None


def test_checksums_are_looked_at_if_they_shall_be(kernel: Any, records: Any) -> None:
    first, second, third = batches(records, *COUNTS)
    damaged_one = bytearray(second)
    damaged_one[17] ^= 1
    data = first + bytes(damaged_one) + third
    assert len(opened(kernel, data)[0]) == 2
    assert len(opened(kernel, data, crc=False)[0]) == 6


def test_what_is_no_buffer_is_a_type_error(kernel: Any) -> None:
    with pytest.raises(TypeError):
        kernel.decode_usual("text", 0, 1, True, "t", 3)


@pytest.mark.parametrize("records_a_batch", [1, 2])
def test_headers_are_counted_like_records(kernel: Any, records: Any, records_a_batch: int) -> None:
    """As many as a batch may have, and one more."""
    most = records.DECOMPRESSED_BYTES_MAX // 128 - records_a_batch
    small = records.encode_batch([(NOW, None, b"", ())] * records_a_batch)
    for more, is_usual in ((0, True), (1, False)):
        section = b""
        for index in range(records_a_batch):
            is_last = index == records_a_batch - 1
            count = most // records_a_batch + (more if is_last else 0)
            record = b"\0\0" + kernel.varint(index) + b"\1\1" + kernel.varint(count)
            record += b"\0\1" * count
            section += kernel.varint(len(record)) + record
        many = bytes(lying(bytes(small[:61]) + section, batch_length=len(section) + 49))
        assert (kernel.decode_usual(many, 0, 1, True, "t", 3) is not None) == is_usual


@given(
    st.lists(st.tuples(rows, st.sampled_from((0, 0, 0, 0, 0x08, 0x40, 0x10, 1))), max_size=4),
    st.lists(damaged, max_size=2),
    st.integers(1, 120),
    st.booleans(),
)
def test_both_give_what_opening_one_by_one_gives(
    parts: list[tuple[list[Any], int]],
    damage: list[tuple[int, int, bytes]],
    wanted: int,
    crc: bool,
) -> None:
    """Damage anywhere, also to what the headers say, under whatever checksum."""
    package = edition("pure")[""]
    data = bytearray()
    for given_rows, attributes in parts:
        made = bytes(package.encode_batch(given_rows, len(data)))
        data += lying(made, attributes=attributes, **EPOCH)
    for at, cut, put in damage:
        at %= len(data) + 1
        data[at : at + cut] = put
    expected = one_by_one(package, bytes(data), 0, wanted, crc)
    for which in KERNEL:
        assert opened(edition(which)["kernel"], bytes(data), 0, wanted, crc) == expected
