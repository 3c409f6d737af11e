"""ExtractNewRecordState: rows out of Debezium's change events, with and without schemas."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.connect.api import DataError, Headers, Schema, SinkRecord, Struct
from moldau.connect.data import INT64, OPTIONAL_STRING, STRING
from moldau.connect.transforms.debezium import ExtractNewRecordState
from moldau.errors import ConfigError

ROW = Schema.struct({"id": INT64, "name": OPTIONAL_STRING}, name="db.public.orders.Value")
SOURCE = Schema.struct({"table": STRING, "ts_ms": INT64}, name="io.debezium.Source")
EVENT = Schema.struct(
    {
        "before": ROW.optionally(),
        "after": ROW.optionally(),
        "source": SOURCE,
        "op": STRING,
        "ts_ms": INT64.optionally(),
    },
    name="db.public.orders.Envelope",
)
BEFORE, AFTER = (1, "old"), (1, "new")
Row = tuple[int, str] | None


def made(**props: str) -> ExtractNewRecordState:
    transform = ExtractNewRecordState()
    transform.configure({name.replace("_", "."): text for name, text in props.items()})
    return transform


def event(op: str, before: Row = None, after: Row = None, *, has_schema: bool = True) -> SinkRecord:
    rows = [None if row is None else {"id": row[0], "name": row[1]} for row in (before, after)]
    source = {"table": "orders", "ts_ms": 7}
    if not has_schema:
        value: Any = {"before": rows[0], "after": rows[1], "source": source, "op": op, "ts_ms": 9}
        return SinkRecord("db.public.orders", 0, None, 1, None, value, 3)
    made = [None if row is None else Struct(ROW.optionally(), row) for row in rows]
    parts = {"before": made[0], "after": made[1], "source": Struct(SOURCE, source)}
    struct = Struct(EVENT, {**parts, "op": op, "ts_ms": 9})
    return SinkRecord("db.public.orders", 0, INT64, 1, EVENT, struct, 3)


def plain(record: SinkRecord | None) -> Any:
    assert record is not None
    if isinstance(record.value, Struct):
        record.value.validate()
        assert record.value.schema is record.value_schema
        return record.value.to_dict()
    return record.value


@pytest.mark.parametrize("has_schema", [True, False])
@pytest.mark.parametrize(("op", "before"), [("c", None), ("r", None), ("u", BEFORE)])
def test_the_row_after_is_what_is_left(op: str, before: Row, has_schema: bool) -> None:
    found = made().apply(event(op, before, AFTER, has_schema=has_schema))

    assert plain(found) == {"id": 1, "name": "new"}


@pytest.mark.parametrize(
    ("props", "deleted", "keeps_tombstones"),
    [
        ({}, "dropped", True),
        ({"delete_tombstone_handling_mode": "drop"}, "dropped", False),
        ({"delete_tombstone_handling_mode": "rewrite"}, "rewritten", False),
        ({"delete_tombstone_handling_mode": "rewrite-with-tombstone"}, "rewritten", True),
        ({"delete_tombstone_handling_mode": "delete-to-tombstone"}, "tombstone", False),
        ({"drop_tombstones": "false"}, "dropped", True),
        ({"drop_tombstones": "true"}, "dropped", False),
        ({"delete_handling_mode": "rewrite", "drop_tombstones": "false"}, "rewritten", True),
        ({"delete_handling_mode": "none"}, "tombstone", False),
    ],
)
def test_deletes_and_tombstones(
    props: dict[str, str], deleted: str, keeps_tombstones: bool
) -> None:
    transform = made(**props)
    tombstone = SinkRecord("db.public.orders", 0, INT64, 1, None, None, 4)

    found = transform.apply(event("d", BEFORE))

    if deleted == "rewritten":
        assert plain(found) == {"id": 1, "name": "old", "__deleted": "true"}
        kept = transform.apply(event("c", None, AFTER))
        assert plain(kept) == {"id": 1, "name": "new", "__deleted": "false"}
    elif deleted == "tombstone":
        assert found is not None
        assert (found.value, found.value_schema, found.key) == (None, None, 1)
    else:
        assert found is None
    assert (transform.apply(tombstone) is tombstone) == keeps_tombstones


@pytest.mark.parametrize("has_schema", [True, False])
def test_parts_of_the_event_are_added(has_schema: bool) -> None:
    transform = made(add_fields="op,table,source.ts_ms:when", add_headers="op")

    found = transform.apply(event("u", BEFORE, AFTER, has_schema=has_schema))

    added = {"__op": "u", "__table": "orders", "__when": 7}
    assert plain(found) == {"id": 1, "name": "new", **added}
    assert found is not None
    assert [(header.key, header.value) for header in found.headers] == [("__op", "u")]


def test_the_topic_may_come_from_a_field() -> None:
    transform = made(route_by_field="name")

    found = transform.apply(event("c", None, AFTER))

    assert found is not None
    assert found.topic == "new"
    with pytest.raises(DataError, match=r"route\.by\.field"):
        made(route_by_field="other").apply(event("c", None, AFTER))


def test_other_records_stay_and_other_events_go(caplog: pytest.LogCaptureFixture) -> None:
    transform = made()
    other = SinkRecord("t", 0, None, None, ROW, Struct(ROW, {"id": 1}), 0, headers=Headers())

    assert transform.apply(other) is other
    assert transform.apply(other) is other
    assert caplog.text.count("no change event") == 1
    assert transform.apply(event("t")) is None
    assert transform.apply(event("m")) is None
    with pytest.raises(DataError, match="operation 'x'"):
        transform.apply(event("x"))


@pytest.mark.parametrize(
    "props",
    [{"delete_tombstone_handling_mode": "keep"}, {"add_fields": "a:b:c"}, {"add_headers": ":x"}],
)
def test_wrong_settings_are_refused(props: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        made(**props)
