"""Records are copied, never changed in place, and sinks remember where they come from."""

from __future__ import annotations

from moldau.connect.api import Headers, SinkRecord, SourceRecord


def test_replace_leaves_the_record_alone() -> None:
    record = SourceRecord({"file": "a"}, {"line": 3}, "lines", value="x")

    changed = record.replace(topic="other", value="y")

    assert (record.topic, record.value) == ("lines", "x")
    assert (changed.topic, changed.value) == ("other", "y")
    assert changed.source_offset == {"line": 3}


def test_a_sink_record_keeps_its_origin_when_it_is_routed_elsewhere() -> None:
    record = SinkRecord("orders", 3, offset=17, headers=Headers())

    changed = record.replace(topic="else", kafka_partition=0)

    assert (changed.original_topic, changed.original_partition) == ("orders", 3)
    assert (changed.original_offset, changed.partition) == (17, 0)
