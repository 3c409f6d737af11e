"""Schemas and records that the questions are made of."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from moldau.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Header,
    Schema,
    Struct,
)
from tests.connect.kafka.encoding import schema_json, value_json

INNER = Schema.struct({"street": STRING, "number": INT32.replace(optional=True, default=7)})
DEEP = Schema.struct({"inner": INNER.optionally(), "flag": BOOLEAN})
PERSON = Schema.struct(
    {
        "id": INT64,
        "age": INT32.replace(default=18, optional=True),
        "small": INT8,
        "medium": INT16,
        "height": FLOAT32,
        "weight": FLOAT64.optionally(),
        "member": BOOLEAN,
        "name": STRING.optionally(),
        "photo": BYTES.optionally(),
        "balance": Schema.decimal(2),
        "born": DATE,
        "wakes": TIME,
        "seen": TIMESTAMP.optionally(),
        "tags": Schema.array(STRING),
        "home": DEEP.optionally(),
    },
    name="person",
    version=3,
    doc="A person.",
    parameters={"source": "test"},
    optional=True,
)
WITH_MAP = Schema.struct({"id": INT64, "scores": Schema.map(STRING, INT32)})
WHEN = datetime(2026, 2, 3, 4, 5, 6, 789000, UTC)


def home(number: int | None = None) -> Struct:
    inner = Struct(INNER.optionally(), {"street": "Moldau", "number": number})
    return Struct(DEEP.optionally(), {"inner": inner, "flag": True})


def person(**changes: Any) -> Struct:
    """A person with everything; `changes` by field."""
    values: dict[str, Any] = {
        "id": 2**40 + 300,
        "age": 42,
        "small": -5,
        "medium": 300,
        "height": 1.75,
        "weight": -70.625,
        "member": True,
        "name": "Ida",
        "photo": b"\x00\x01\xff",
        "balance": Decimal("-12.50"),
        "born": date(1984, 5, 6),
        "wakes": time(7, 30, 15, 250000),
        "seen": WHEN,
        "tags": ["a", "b"],
        "home": home(3),
    }
    return Struct(PERSON, {**values, **changes})


SPARSE = person(age=None, weight=None, name=None, photo=None, seen=None, home=None)
HALF_HOME = person(home=Struct(DEEP.optionally(), {"inner": None, "flag": False}))
PLAIN: dict[str, Any] = {
    "id": 2**40 + 300,
    "age": 42,
    "height": 1.75,
    "member": True,
    "name": "Ida",
    "text": "17",
    "nothing": None,
    "tags": ["a", 1, None],
    "home": {"inner": {"street": "Moldau", "number": 3}, "flag": True},
    "dotted.name": {"x.y": 5},
    "seen": 1_770_091_506_789,
    "day": "2026-02-03",
}


def record(**parts: Any) -> dict[str, Any]:
    """A record as JSON; `parts` are attributes of a sink or source record."""
    key_schema, value_schema = parts.get("key_schema"), parts.get("value_schema")
    headers = parts.get("headers", ())
    return {
        "is_sink": parts.get("is_sink", True),
        "topic": parts.get("topic", "orders"),
        "partition": parts.get("partition", 2),
        "offset": parts.get("offset", 99),
        "timestamp": parts.get("timestamp", 1_770_091_506_789),
        "key_schema": schema_json(key_schema),
        "key": value_json(parts.get("key"), key_schema),
        "value_schema": schema_json(value_schema),
        "value": value_json(parts.get("value"), value_schema),
        "headers": [
            {
                "key": header.key,
                "schema": schema_json(header.schema),
                "value": value_json(header.value, header.schema),
            }
            for header in headers
        ],
    }


HEADERS = (
    Header("trace", "x1", STRING),
    Header("count", 5, INT32),
    Header("trace", "x2", STRING),
    Header("plain", None),
)


def both(schema: Schema | None, value: Any, **parts: Any) -> dict[str, Any]:
    """A record with the same key and value."""
    return record(key_schema=schema, key=value, value_schema=schema, value=value, **parts)
