"""Records with a schema, read as columns, are those read one by one, or none."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.base.columns import BinaryColumn
from moldau.connect.api import DataError, Headers, Schema, Struct, StructColumns
from moldau.connect.converters.json import JsonConverter
from moldau.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT8,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
)
from moldau.records.record import Spans

SCHEMA = Schema.struct(
    {
        "id": INT64,
        "a b": STRING.optionally(),
        "amount": FLOAT64,
        "at": TIMESTAMP.optionally(),
        "price": Schema.decimal(2, optional=True),
        "raw": BYTES.optionally(),
        "day": DATE.optionally(),
        "clock": TIME.optionally(),
        "flag": BOOLEAN,
        "small": INT8.replace(default=7),
        "tags": Schema.array(STRING.optionally(), optional=True),
    }
)
GOOD: dict[str, Any] = {
    "id": 1,
    "a b": 'text with "quotes", \u00e9 and \n a line',
    "amount": 1.5,
    "at": 1_714_564_800_250,
    "price": "AJY=",
    "raw": "AP8=",
    "day": 19_844,
    "clock": 45_000,
    "flag": True,
    "small": 3,
    "tags": ["x", None],
}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-200, 200),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 1.0, 1.5, 1e300, "AP8=", "NaN"]),
    st.text(max_size=4),
    st.lists(st.none() | st.text(max_size=2), max_size=2),
)


def converter(**settings: str) -> JsonConverter:
    made = JsonConverter()
    made.configure(settings)
    return made


def column(values: Sequence[bytes]) -> BinaryColumn:
    ends = array("i", [0, *accumulate(map(len, values))])
    return BinaryColumn(Spans(b"".join(values), ends.tobytes(), 4, None, 0, len(values)))


def head() -> bytes:
    """What the converter writes before each payload."""
    row = [None] * len(SCHEMA.fields)
    row[0], row[2], row[8] = 0, 0.0, False  # type: ignore[call-overload]
    written = converter().from_connect_data("t", None, SCHEMA, Struct.of_row(SCHEMA, row))
    assert written is not None
    return written[: written.index(b'"payload":') + len(b'"payload":')]


HEAD = head()


def envelope(payload: object) -> bytes:
    return HEAD + json.dumps(payload).encode() + b"}"


def one_by_one(data: Sequence[bytes], **settings: str) -> list[list[Any]] | None:
    made = converter(**settings)
    try:
        return [made.to_connect_data("t", Headers(), each).value.row for each in data]
    except DataError:
        return None


def read(data: Sequence[bytes], **settings: str) -> StructColumns | None:
    made = converter(**settings)
    try:
        return made.to_connect_columns("t", column(data))
    except DataError:
        return None


def rows(found: StructColumns) -> list[list[Any]]:
    return [list(row) for row in zip(*found.columns, strict=True)]


def test_records_of_every_type_become_columns() -> None:
    sparse = {"id": 2, "amount": 3, "flag": False}
    data = [envelope(GOOD), envelope(sparse), envelope({**GOOD, "unknown": {"x": [1]}})]

    found = read(data)

    assert found is not None
    assert found.schema == SCHEMA
    assert rows(found) == one_by_one(data)


@given(payloads=st.lists(st.dictionaries(st.sampled_from(list(GOOD)), SCALARS), min_size=1,
                         max_size=4))  # fmt: skip
def test_columns_are_what_single_records_are(payloads: list[dict[str, Any]]) -> None:
    data = [envelope({**GOOD, **each}) for each in payloads]

    found = read(data)

    if found is not None:
        assert repr(rows(found)) == repr(one_by_one(data))


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"no JSON",
        HEAD + b"null}",
        HEAD + b'{"id":1}}',
        HEAD + json.dumps({**GOOD, "id": "1"}).encode() + b"}",
        HEAD + json.dumps({**GOOD, "small": 300}).encode() + b"}",
        HEAD + json.dumps({**GOOD, "price": "?"}).encode() + b"}",
        HEAD + json.dumps({**GOOD, "price": 1.25}).encode() + b"}",
        HEAD + json.dumps(GOOD).encode() + b',"more":1}',
        HEAD + json.dumps(GOOD, indent=1).encode() + b"} ",
        b'{"schema":{"type":"string"},"payload":"x"}',
    ],
)
@pytest.mark.parametrize("position", [0, 1])
def test_one_other_record_leaves_no_columns(bad: bytes, position: int) -> None:
    data = [envelope(GOOD), envelope(GOOD)]
    data.insert(position, bad)

    assert read(data) is None


def test_records_that_are_values_only_together_leave_no_columns() -> None:
    """Neither record is JSON; joined, they are two objects."""
    small = json.dumps(GOOD)
    for separator in (",", "\n"):
        first = HEAD + f'{small}{separator}{small[:-1]},"x":[{{}}'.encode() + b"}"
        second = HEAD + b'{"y":1}]}' + b"}"
        assert one_by_one([first, second]) is None
        assert read([first, second]) is None


def test_a_schema_in_the_settings_reads_payloads_alone() -> None:
    described = json.loads(HEAD + b"null}")["schema"]
    settings = {"schema.content": json.dumps(described)}
    data = [json.dumps(GOOD).encode(), json.dumps({**GOOD, "id": 2}).encode()]

    found = read(data, **settings)

    assert found is not None
    assert rows(found) == one_by_one(data, **settings)


PLAIN = {"schemas.enable": "false"}


def test_objects_with_the_same_keys_become_columns() -> None:
    found = read([b'{"id":1,"b":[1.5]}', b'{"id":null,"b":{"x":2}}'], **PLAIN)

    assert found == StructColumns(None, [(1, None), ([1.5], {"x": 2})])


@pytest.mark.parametrize(
    "other", [b'{"b":1,"id":1}', b'{"id":1}', b"{}", b"[1]", b"1", b"null", b"", b'{"id":1,"b":']
)
@pytest.mark.parametrize("position", [0, 1])
def test_one_object_of_another_kind_leaves_no_columns(other: bytes, position: int) -> None:
    data = [b'{"id":1,"b":2}', b'{"id":2,"b":3}']
    data.insert(position, other)

    assert read(data, **PLAIN) is None
