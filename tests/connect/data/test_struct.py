"""Structs: values by name, defaults, and refusals that name the field."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Struct,
    validate,
)
from moldau.connect.errors import DataError

PERSON = Schema.struct(
    {
        "id": INT64,
        "name": STRING.optionally(),
        "age": INT32.replace(default=18),
        "mother": Schema.struct({"name": STRING}, optional=True),
    },
    name="person",
)


def test_a_field_reads_as_its_default_but_is_stored_as_none() -> None:
    person = Struct(PERSON, {"id": 7})

    assert person["age"] == 18
    assert person.stored("age") is None
    assert person.to_dict() == {"id": 7, "name": None, "age": 18, "mother": None}


def test_structs_inside_become_dicts() -> None:
    mother = PERSON.fields[3].schema
    person = Struct(PERSON, {"id": 7, "mother": Struct(mother, {"name": "Ida"})})

    assert person.validate().to_dict()["mother"] == {"name": "Ida"}


def test_a_struct_is_like_a_dict() -> None:
    person = Struct(PERSON, {"id": 7})

    assert "name" in person
    assert list(person) == ["id", "name", "age", "mother"]
    assert person.get("nothing", 3) == 3
    assert len(person) == 4


def test_unknown_fields_are_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"struct person has no field 'nam'.*'name'"):
        Struct(PERSON, {"nam": "x"})


def test_assignment_checks_the_value() -> None:
    person = Struct(PERSON, {"id": 7})

    with pytest.raises(DataError, match="field 'age' is of Python type str, but its schema is int"):
        person["age"] = "old"


def test_a_required_field_that_is_missing_is_named() -> None:
    with pytest.raises(DataError, match="field 'id' of the struct is null"):
        Struct(PERSON).validate()


def test_what_is_wrong_deep_inside_is_named() -> None:
    schema = Schema.struct({"rows": Schema.array(Schema.map(STRING, INT8))})

    with pytest.raises(DataError, match=r"field 'rows' of the struct\[1\]\['b'\] is 200"):
        Struct(schema, {"rows": [{"a": 1}, {"b": 200}]}).validate()


def test_a_copy_has_its_own_row() -> None:
    person = Struct(PERSON, {"id": 7})
    other = person.copy()
    other["id"] = 8

    assert person["id"] == 7
    assert person != other


def test_a_struct_survives_pickling() -> None:
    person = Struct(PERSON, {"id": 7})

    assert pickle.loads(pickle.dumps(person)) == person  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT8, -128),
        (INT64, 2**63 - 1),
        (FLOAT64, 1),
        (FLOAT64, 1.5),
        (BOOLEAN, False),
        (STRING, ""),
        (BYTES, b"x"),
        (Schema.decimal(2), Decimal("1.50")),
        (DATE, date(2026, 1, 1)),
        (TIME, time(1, 2)),
        (TIMESTAMP, datetime(2026, 1, 1, tzinfo=UTC)),
        (INT8.optionally(), None),
        (INT8.replace(default=1), None),
    ],
)
def test_what_fits(schema: Schema, value: Any) -> None:
    validate(schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT8, 128),
        (INT32, True),
        (INT32, 1.0),
        (FLOAT64, True),
        (BOOLEAN, 0),
        (STRING, b""),
        (BYTES, "x"),
        (Schema.decimal(2), 1.5),
        (DATE, datetime(2026, 1, 1, tzinfo=UTC)),
        (TIME, 5),
        (TIMESTAMP, datetime(2026, 1, 1)),
        (Schema.array(INT8), "ab"),
        (Schema.map(STRING, INT8), [1]),
        (PERSON, {"id": 1}),
        (INT8, None),
    ],
)
def test_what_does_not_fit(schema: Schema, value: Any) -> None:
    with pytest.raises(DataError, match="the value"):
        validate(schema, value)
