"""Where the serdes do not leave the work to a library: what the library does there.

Each test here is the reason for a module of ours. When one fails because the library has become
better, that module can go.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

READS_DEEPLY = """
import io
import fastavro

fields = [{"name": "next", "type": ["null", "N"]}]
schema = fastavro.parse_schema({"type": "record", "name": "N", "fields": fields})
fastavro.schemaless_reader(io.BytesIO(b"\\x02" * 100_000 + b"\\x00"), schema, None)
"""
RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
PRICE = {"type": "fixed", "name": "P", "size": 2, "logicalType": "decimal", "precision": 4}


def through_fastavro(schema: Any, value: Any) -> Any:
    """What fastavro reads of what it has written, as strictly as it can."""
    buffer, parsed = BytesIO(), fastavro.parse_schema(schema)
    fastavro.schemaless_writer(buffer, parsed, value, strict=True)
    buffer.seek(0)
    return fastavro.schemaless_reader(buffer, parsed, None)


def test_fastavros_reader_ends_the_process_on_deep_records() -> None:
    """The reason for `avro_nested`."""
    done = subprocess.run(  # noqa: S603 (fixed arguments)
        [sys.executable, "-c", READS_DEEPLY], capture_output=True, check=False
    )
    assert done.returncode < 0  # by a signal


def test_fastavros_reader_makes_any_number_of_items_of_a_few_bytes() -> None:
    """The second reason for `avro_nested`."""
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, "long", 10**6)
    schema = fastavro.parse_schema({"type": "array", "items": "null"})
    few = BytesIO(buffer.getvalue() + b"\0")
    found: Any = fastavro.schemaless_reader(few, schema, None)
    assert len(few.getvalue()) == 4
    assert len(found) == 10**6


@pytest.mark.parametrize(
    ("schema", "value", "written"),
    [
        ("int", 1.5, 1),
        ("boolean", "x", True),
        ("float", 1e40, float("inf")),
        ("double", 2**53 + 1, float(2**53)),
        (["double", "int"], 3, 3.0),
    ],
)
def test_fastavro_writes_another_value(schema: Any, value: Any, written: Any) -> None:
    """The reason for `avro_plain` and `avro_values`."""
    found = through_fastavro(schema, value)
    assert found == written
    assert type(found) is type(written)


@pytest.mark.parametrize(
    ("schema", "value", "written"),
    [
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            datetime(2026, 1, 1, 5).astimezone().replace(tzinfo=None),
            datetime(2026, 1, 1, 5).astimezone(UTC),
        ),
        ({"type": "int", "logicalType": "date"}, datetime(2026, 1, 1, 5), date(2026, 1, 1)),
        ({**PRICE, "scale": 2}, Decimal("-0.00"), Decimal("-0.02")),
    ],
)
def test_fastavro_writes_another_time_or_number(schema: Any, value: Any, written: Any) -> None:
    """The reason for `avro_logical`; its validation passes all of these."""
    assert fastavro.validate(value, fastavro.parse_schema(schema), strict=True)
    assert through_fastavro(schema, value) == written


def test_fastavros_validation_passes_fields_that_are_not_in_the_schema() -> None:
    """So it cannot take the place of `avro_values` either."""
    assert fastavro.validate({"a": 1, "b": 2}, fastavro.parse_schema(RECORD), strict=True)
    with pytest.raises(ValueError, match="more fields"):
        through_fastavro(RECORD, {"a": 1, "b": 2})


def test_fastavro_gives_one_default_to_all_values() -> None:
    """The reason for `avro_defaults`: a change to one value would change the next."""
    more = {"name": "more", "type": {"type": "array", "items": "int"}, "default": []}
    wider = fastavro.parse_schema({**RECORD, "fields": [*RECORD["fields"], more]})
    writers = fastavro.parse_schema(RECORD)
    first: Any = fastavro.schemaless_reader(BytesIO(b"\x02"), writers, wider)
    second: Any = fastavro.schemaless_reader(BytesIO(b"\x02"), writers, wider)
    assert first["more"] is second["more"]
