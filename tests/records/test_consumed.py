"""Records with their place, as a consumer gives them: the same from both kernels."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import pytest
from hypothesis import given

from tests.records.editions import KERNEL, edition
from tests.records.lying_batch import lying
from tests.records.strategies import rows, section_header

NAMES = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "timestamp_type",
)


def fields(record: Any) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in NAMES)


def made(records: Any, **claims: int) -> list[Any]:
    batch = bytes(records.encode_batch([(5, b"k", b"v", (("h", None),)), (6, None, b"w", ())], 3))
    opened = records.decode_usual(
        bytes(lying(batch, partition_leader_epoch=7, **claims)), 0, 9, True, "t", 4
    )
    found: list[Any] = opened.records
    return found


def test_a_record_says_where_it_is_and_whose_time_it_has(records: Any) -> None:
    headers = (("h", None),)
    first, second = made(records)
    assert fields(first) == (
        "t",
        4,
        3,
        5,
        b"k",
        b"v",
        headers,
        7,
        0,
    )
    assert fields(second)[2:7] == (4, 6, None, b"w", ())
    (stamped, _) = made(records, attributes=0x08)
    assert stamped.timestamp_type == records.TimestampType.LOG_APPEND_TIME


@given(rows)
def test_both_kernels_decode_them_alike_and_as_records(given_rows: list[Any]) -> None:
    found = []
    for which in KERNEL:
        kernel, package = edition(which)["kernel"], edition(which)[""]
        appender = kernel.Appender()
        appender.extend(given_rows)
        section = bytes(appender.take()[61:])
        header = section_header(
            package, len(section), len(given_rows), base_timestamp=given_rows[0][0]
        )
        decoded = kernel.decode_consumed(section, header, "t", 3)
        plain = kernel.decode(section, header)
        assert [fields(each)[2:7] for each in decoded] == [
            (each.offset, each.timestamp, each.key, each.value, each.headers) for each in plain
        ]
        found.append([fields(each) for each in decoded])
    assert found[0] == found[1]


def test_other_contents_leave_the_rest_as_it_is(records: Any) -> None:
    before = made(records)
    after = records.with_contents(before, [1, None], [["a"], {}])
    assert [(each.key, each.value) for each in after] == [(1, ["a"]), (None, {})]
    assert [fields(each)[:4] + fields(each)[6:] for each in after] == [
        fields(each)[:4] + fields(each)[6:] for each in before
    ]
    with pytest.raises(ValueError, match=r"."):
        records.with_contents(before, [1], [2])


def test_one_of_ones_own_is_made_by_names_and_compared_copied_and_shown(records: Any) -> None:
    kind = records.ConsumerRecord
    one = kind("t", 1, offset=2, timestamp=3, key="k", value=["v"])
    assert fields(one) == ("t", 1, 2, 3, "k", ["v"], (), -1, -1)
    assert one == kind("t", 1, 2, 3, "k", ["v"])
    assert one != kind("t", 2, 2, 3, "k", ["v"])
    assert repr(one).startswith(
        "ConsumerRecord(topic='t', partition=1, offset=2, timestamp=3, key="
    )
    assert hash(made(records)[0]) == hash(made(records)[0])


def test_they_can_be_pickled() -> None:
    from moldau.records import ConsumerRecord  # the edition that is in use, which pickle finds

    one = ConsumerRecord("t", 1, 2, 3, b"k", ["v"], (("h", b""),), 4, 1)
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301


def test_a_record_in_a_cycle_is_collected(records: Any) -> None:
    """Its value may be an object that refers to it, as the application likes."""

    class Order:
        record: Any = None

    living: list[int] = []
    makers: list[Any] = [
        lambda value: records.ConsumerRecord("t", 1, 2, 3, None, value),
        lambda value: records.with_contents(made(records), [0, 0], [value, value])[0],
    ]
    for maker in makers:
        order = Order()
        order.record = maker(order)
        living.append(id(order))
    del order
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, Order)]
    assert len(living) == 2


def test_records_of_bytes_cost_the_collector_nothing() -> None:
    package = edition("compiled")[""]
    assert not any(map(gc.is_tracked, made(package)))


def test_many_are_made_and_let_go(records: Any) -> None:
    """More than the compiled kernel keeps spare."""
    for _ in range(3):
        found = [made(records) for _ in range(1500)]
        assert {fields(each[0])[:3] for each in found} == {("t", 4, 3)}
        again = [records.with_contents(each, [0, 0], [0, 0]) for each in found]
        assert {each[1].offset for each in again} == {4}
        del found, again
        gc.collect()
