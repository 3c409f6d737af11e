"""Which source offsets may be stored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.task.submitted import SubmittedRecord, SubmittedRecords

A, B = {"file": "a"}, {"file": "b"}


def submit(
    records: SubmittedRecords, place: dict[str, str] | None, number: int | None
) -> SubmittedRecord:
    entry = SubmittedRecord(place, None if number is None else {"n": number})
    records.add(entry)
    return entry


def test_an_offset_is_stored_when_all_before_it_are_safe() -> None:
    records = SubmittedRecords()
    first, second = submit(records, A, 1), submit(records, A, 2)

    second.acknowledge()
    assert records.committable() == []

    first.acknowledge()
    assert records.committable() == [(A, {"n": 2})]
    assert records.committable() == [(A, {"n": 2})], "it is not stored yet"
    records.on_stored()
    assert records.committable() == []


def test_partitions_do_not_wait_for_each_other() -> None:
    records = SubmittedRecords()
    submit(records, A, 1)
    submit(records, B, 1).acknowledge()

    assert records.committable() == [(B, {"n": 1})]


def test_records_without_partition_or_offset_store_nothing() -> None:
    records = SubmittedRecords()
    for place, number in ((None, None), (A, 1), (A, None)):
        submit(records, place, number).acknowledge()

    assert records.committable() == [(A, {"n": 1})]


def test_an_offset_of_several_records_is_stored_when_all_of_them_are_safe() -> None:
    records = SubmittedRecords()
    before, first, second = (submit(records, A, number) for number in (1, 2, 2))
    before.acknowledge()
    first.acknowledge()
    assert records.committable() == [(A, {"n": 1})], "a restart after 2 would lose the second"
    second.acknowledge()
    assert records.committable() == [(A, {"n": 2})]


def test_newer_offsets_win_over_those_that_could_not_be_stored() -> None:
    records = SubmittedRecords()
    submit(records, A, 1).acknowledge()
    submit(records, B, 1).acknowledge()
    records.committable()
    submit(records, {"file": "a"}, 2).acknowledge()

    assert records.committable() == [(A, {"n": 2}), (B, {"n": 1})]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=40))
def test_nothing_behind_an_unsafe_record_is_ever_stored(events: list[tuple[str, int]]) -> None:
    records = SubmittedRecords()
    sent: dict[str, list[SubmittedRecord]] = {"a": [], "b": []}
    stored = {"a": -1, "b": -1}
    for name, number in events:
        entries = sent[name]
        if number % 2 or not entries:
            entries.append(submit(records, {"file": name}, len(entries)))
        else:
            entries[number % len(entries)].acknowledge()
        for partition, offset in records.committable():
            stored[partition["file"]] = offset["n"]
        for each, reached in stored.items():
            assert all(entry.is_safe for entry in sent[each][: reached + 1])
            assert reached + 1 == len(sent[each]) or not sent[each][reached + 1].is_safe
