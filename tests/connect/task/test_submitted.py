"""Which source offsets may be stored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.task.submitted import SubmittedRecord, SubmittedRecords, merged

A, B = {"file": "a"}, {"file": "b"}


def test_an_offset_is_stored_when_all_before_it_are_safe() -> None:
    records = SubmittedRecords()
    first, second = records.submit(A, {"n": 1}), records.submit(A, {"n": 2})

    second.acknowledge()
    assert records.committable() == []

    first.acknowledge()
    assert records.committable() == [(A, {"n": 2})]
    assert records.committable() == []
    assert records.count == 0


def test_partitions_do_not_wait_for_each_other() -> None:
    records = SubmittedRecords()
    records.submit(A, {"n": 1})
    records.submit(B, {"n": 1}).acknowledge()

    assert records.committable() == [(B, {"n": 1})]


def test_records_without_partition_or_offset_store_nothing() -> None:
    records = SubmittedRecords()
    records.submit(None, None).acknowledge()
    records.submit(A, {"n": 1}).acknowledge()
    records.submit(A, None).acknowledge()

    assert records.committable() == [(A, {"n": 1})]


def test_an_offset_of_several_records_is_stored_when_all_of_them_are_safe() -> None:
    records = SubmittedRecords()
    before = records.submit(A, {"n": 1})
    first, second = records.submit(A, {"n": 2}), records.submit(A, {"n": 2})
    before.acknowledge()
    first.acknowledge()
    assert records.committable() == [(A, {"n": 1})], "a restart after 2 would lose the second"
    second.acknowledge()
    assert records.committable() == [(A, {"n": 2})]


def test_newer_offsets_win_over_those_that_could_not_be_stored() -> None:
    assert merged([(A, {"n": 1}), (B, {"n": 1})], [({"file": "a"}, {"n": 2})]) == [
        (A, {"n": 2}),
        (B, {"n": 1}),
    ]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=40))
def test_nothing_behind_an_unsafe_record_is_ever_stored(events: list[tuple[str, int]]) -> None:
    records = SubmittedRecords()
    sent: dict[str, list[SubmittedRecord]] = {"a": [], "b": []}
    stored = {"a": -1, "b": -1}
    for name, number in events:
        entries = sent[name]
        if number % 2 or not entries:
            entries.append(records.submit({"file": name}, {"n": len(entries)}))
        else:
            entries[number % len(entries)].acknowledge()
        for partition, offset in records.committable():
            stored[partition["file"]] = offset["n"]
        for each, reached in stored.items():
            assert all(entry.is_safe for entry in sent[each][: reached + 1])
            assert reached + 1 == len(sent[each]) or not sent[each][reached + 1].is_safe
