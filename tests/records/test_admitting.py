"""The kernels' short cut for what producers send: who is let through, and with what stamp.

Whatever `admit_usual` takes, `validate` takes; most tests are about what it must not take.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import CorruptRecord
from tests.records.editions import KERNEL, edition
from tests.records.golden import BATCHES
from tests.records.lying_batch import lying
from tests.records.strategies import NOW, damaged, damaged_sections, section_header, timestamps

ALWAYS = (-(2**63), 2**63 - 1)
PLACE = (1000, 7)
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def admitted(kernel: Any, batch: bytes, rules: int = 0, times: tuple[int, int] = ALWAYS) -> Any:
    """The kernel's answer, once it is sure that the bytes are as that says they should be."""
    buffer = bytearray(batch)
    answer = kernel.admit_usual(memoryview(buffer), rules, *times, *PLACE)
    stamp = bytes(8) if answer is None else (1000).to_bytes(8, "big")
    epoch = batch[12:16] if answer is None else (7).to_bytes(4, "big")
    expected = batch[:16] if answer is None else stamp + batch[8:12] + epoch
    assert buffer == expected + batch[16:]
    return answer


@pytest.fixture(params=CODECS)
def batch(request: pytest.FixtureRequest, records: Any) -> bytes:
    """Two records in each codec."""
    rows = [(NOW + 3, b"k", b"v" * 50, ()), (NOW, None, b"w", (("h", b"x"),))]
    return bytes(records.encode_batch(rows, codec=records.Codec[request.param.upper()]))


@pytest.mark.parametrize("name", [*CODECS, "transactional"])
def test_kafkas_batches_are_stamped(kernel: Any, name: str) -> None:
    producer_id = int.from_bytes(BATCHES[name][43:51], "big", signed=True)
    kafkas = bytes(lying(BATCHES[name], base_offset=0))
    assert admitted(kernel, kafkas) == (1003, NOW + 5, producer_id)


def test_a_leader_learns_what_it_needs(kernel: Any, batch: bytes) -> None:
    assert admitted(kernel, batch) == (1001, NOW + 3, -1)
    produced = lying(batch, producer_id=7, producer_epoch=1, base_sequence=0)
    assert admitted(kernel, bytes(produced)) == (1001, NOW + 3, 7)
    attributes = batch[22] | 0x10
    produced = lying(bytes(produced), attributes=attributes)
    assert admitted(kernel, bytes(produced)) == (1001, NOW + 3, 7)


def test_any_memory_that_may_be_written_will_do(kernel: Any, batch: bytes) -> None:
    framed = bytearray(b"front" + batch + b"behind")
    assert kernel.admit_usual(memoryview(framed)[5:-6], 0, *ALWAYS, *PLACE)
    assert framed.startswith(b"front")
    assert framed.endswith(b"behind")
    assert kernel.admit_usual(bytearray(batch), 0, *ALWAYS, *PLACE)
    for read_only in (batch, memoryview(batch)):
        assert kernel.admit_usual(read_only, 0, *ALWAYS, *PLACE) is None


def test_what_was_stamped_is_still_valid(kernel: Any, records: Any, batch: bytes) -> None:
    buffer = bytearray(batch)
    kernel.admit_usual(buffer, 0, *ALWAYS, *PLACE)
    header = records.validate(buffer).batch.header
    assert (header.base_offset, header.partition_leader_epoch) == PLACE


@pytest.mark.parametrize(
    "claims",
    [
        {"attributes": 5},
        {"attributes": 6},
        {"attributes": 7},
        {"attributes": 0x08},
        {"attributes": 0x10},
        {"attributes": 0x20},
        {"attributes": 0x40},
        {"attributes": 0x80},
        {"attributes": 0x100},
        {"attributes": -0x8000},
        {"magic": 1},
        {"magic": 3},
        {"batch_length": 49},
        {"batch_length": -1},
        {"base_offset": -1},
        {"base_offset": 1},
        {"base_offset": 2**63 - 1},
        {"last_offset_delta": 2},
        {"last_offset_delta": 2, "record_count": 3},
        {"last_offset_delta": 0, "record_count": 1},
        {"record_count": 1},
        {"record_count": 0, "last_offset_delta": -1},
        {"record_count": -1, "last_offset_delta": -2},
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"max_timestamp": NOW + 4},
        {"max_timestamp": NOW + 2},
        {"base_timestamp": 2**63 - 1},
        {"producer_id": -2},
        {"producer_id": 7, "producer_epoch": -1, "base_sequence": 0},
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": -1},
    ],
    ids=str,
)
def test_whatever_is_not_usual_is_for_a_closer_look(
    kernel: Any, batch: bytes, claims: dict[str, int]
) -> None:
    if "attributes" in claims and claims["attributes"] > 7:
        claims = {"attributes": claims["attributes"] | batch[22]}
    buffer = lying(batch, **claims)
    before = bytes(buffer)
    assert kernel.admit_usual(buffer, 0, *ALWAYS, *PLACE) is None
    assert buffer == before


def test_a_batch_is_keyed_and_of_our_time(kernel: Any, batch: bytes) -> None:
    assert admitted(kernel, batch, 0, (NOW, NOW + 3)) is not None
    assert admitted(kernel, batch, 0, (NOW + 1, NOW + 3)) is None
    assert admitted(kernel, batch, 0, (NOW, NOW + 2)) is None
    assert admitted(kernel, batch, 2, (NOW, NOW + 3)) is None, "a key is null"


def test_records_without_a_time_are_never_too_old(kernel: Any, records: Any) -> None:
    timeless = bytes(records.encode_batch([(-1, None, b"a", ())]))
    assert admitted(kernel, timeless, 0, (NOW, NOW)) == (1000, -1, -1)
    assert admitted(kernel, bytes(records.encode_batch([(-2, None, b"", ())]))) is None


def test_cut_damaged_or_followed_by_something_it_is_refused(kernel: Any, batch: bytes) -> None:
    for size in range(len(batch)):
        assert admitted(kernel, batch[:size]) is None
        if size >= 61:
            assert admitted(kernel, bytes(lying(batch[:size], batch_length=size - 12))) is None
    assert admitted(kernel, batch + b"\0") is None
    longer = batch + b"\0"
    assert admitted(kernel, bytes(lying(longer, batch_length=len(longer) - 12))) is None
    for position in range(16, len(batch)):
        changed = bytearray(batch)
        changed[position] ^= 0x55
        assert admitted(kernel, bytes(changed)) is None


def test_an_offset_that_leads_nowhere_is_not_given(kernel: Any, batch: bytes) -> None:
    for base_offset, is_given in ((2**63 - 2**31, True), (2**63 - 1, False)):
        given_offset = kernel.admit_usual(bytearray(batch), 0, *ALWAYS, base_offset, 0)
        assert (given_offset is not None) == is_given


def test_the_codec_must_be_that_of_the_bytes(kernel: Any, batch: bytes) -> None:
    for codec in range(5):
        claimed = bytes(lying(batch, attributes=codec))
        assert (admitted(kernel, claimed) is not None) == (codec == batch[22])


@pytest.mark.parametrize("codec", range(1, 5))
@pytest.mark.parametrize("size", [2 << 20, 128 << 20])
def test_what_decompresses_to_much_takes_a_check_elsewhere(
    kernel: Any, records: Any, codec: int, size: int
) -> None:
    usual = encoded(records, bytes((1 << 20) - 1000), codec)
    assert admitted(kernel, usual) is not None
    bomb = encoded(records, bytes(size), codec)
    with pytest.raises(CorruptRecord) as caught:
        admitted(kernel, bomb)
    assert type(caught.value).__name__ == "OversizedRecords"  # of either edition


def encoded(records: Any, value: bytes, codec: int) -> bytes:
    return bytes(records.encode_batch([(NOW, None, value, ())], codec=records.Codec(codec)))


def test_headers_are_counted_like_records(kernel: Any, records: Any) -> None:
    """As many as a batch may have, and one more."""
    most = records.DECOMPRESSED_BYTES_MAX // 128
    small = records.encode_batch([(NOW, None, b"", ())])
    for count, is_usual in ((most - 1, True), (most, False)):
        record = b"\0\0\0\1\1" + kernel.varint(count) + b"\0\1" * count
        section = kernel.varint(len(record)) + record
        many = lying(small[:61] + section, batch_length=len(section) + 49)
        assert (admitted(kernel, bytes(many)) is not None) == is_usual


@given(
    damaged_sections(),
    st.sampled_from(range(5)),
    st.lists(damaged, max_size=2),
    st.integers(-1, 1),
    st.sampled_from((0, 2)),
    st.tuples(timestamps, timestamps) | st.just(ALWAYS),
)
def test_both_take_what_is_valid_and_nothing_else(
    section: tuple[bytes, int],
    codec: int,
    damage: list[tuple[int, int, bytes]],
    more: int,
    rules: int,
    times: tuple[int, int],
) -> None:
    """Damage to the records, and to what they were compressed to, under a right checksum."""
    content, count = section
    records, kernel = edition("pure")[""], edition("pure")["kernel"]
    header = section_header(records, len(content), count + more, attributes=codec)
    with suppress(CorruptRecord):
        header = header._replace(max_timestamp=kernel.scan(content, header, 0)[1])
    packed = bytearray(records.compress(records.Codec(codec), content))
    for at, cut, put in damage:
        at %= len(packed) + 1
        packed[at : at + cut] = put
    header = header._replace(batch_length=len(packed) + 49)
    made = bytearray(edition("pure")["header"].LAYOUT.pack(*header)) + packed
    edition("pure")["batch"].seal(made, 0, len(made))
    compiled, pure = (
        admitted(edition(which)["kernel"], bytes(made), rules, times) for which in KERNEL
    )
    assert compiled == pure
    asked = records.Rules(
        needs_keys=bool(rules), timestamp_ms_min=times[0], timestamp_ms_max=times[1]
    )
    try:
        judged = records.validate(made, asked)
    except records.InvalidRecord:
        assert pure is None
        return
    if judged.claims_wrong_timestamp:
        assert pure is None
    else:
        last = 1000 + judged.batch.header.last_offset_delta
        assert pure == (last, judged.timestamp_max, -1)


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("size", [1, 70_000, 300_000])
def test_batches_of_any_size_are_taken(kernel: Any, records: Any, codec: int, size: int) -> None:
    rows = [(NOW, None, bytes(range(256)) * (size // 256) + b"!", ())] * 3
    large = bytes(records.encode_batch(rows, codec=records.Codec(codec)))
    assert admitted(kernel, large) == (1002, NOW, -1)
