"""Schemas are values: equal by their parts, unchangeable, cheap to hash, and they pickle."""

from __future__ import annotations

import pickle

import pytest

from moldau.connect.data import DATE, INT32, INT64, STRING, Logical, Schema, Type
from moldau.connect.errors import DataError

ORDER = {"id": INT64, "paid": Schema.decimal(2, optional=True), "tags": Schema.array(STRING)}


def test_schemas_with_the_same_parts_are_equal_and_hash_alike() -> None:
    one, other = Schema.struct(ORDER, name="order"), Schema.struct(dict(ORDER), name="order")

    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    "other",
    [
        Schema.struct(ORDER, name="orders"),
        Schema.struct(ORDER, name="order", optional=True),
        Schema.struct(ORDER, name="order", version=2),
        Schema.struct(ORDER, name="order", doc="an order"),
        Schema.struct(ORDER, name="order", parameters={"a": "b"}),
        Schema.struct({**ORDER, "more": INT32}, name="order"),
    ],
)
def test_schemas_that_differ_in_one_trait_are_not_equal(other: Schema) -> None:
    assert Schema.struct(ORDER, name="order") != other


def test_a_default_makes_a_difference() -> None:
    assert INT32.replace(default=1) != INT32.replace(default=2)


def test_a_schema_survives_pickling() -> None:
    schema = Schema.map(STRING, Schema.struct(ORDER, name="order"), optional=True)

    assert pickle.loads(pickle.dumps(schema)) == schema  # noqa: S301 - our own bytes


def test_a_name_makes_a_logical_type_only_on_its_own_type() -> None:
    assert DATE.logical is Logical.DATE
    assert Schema(Type.STRING, name=Logical.DATE).logical is None


def test_a_decimal_knows_its_scale() -> None:
    assert Schema.decimal(3).scale == 3
    with pytest.raises(DataError, match="needs the parameter `scale`"):
        _ = Schema(Type.BYTES, name=Logical.DECIMAL).scale


def test_fields_are_found_by_name() -> None:
    schema = Schema.struct(ORDER)

    found = schema.field("paid")

    assert found is not None
    assert (found.position, found.schema.scale) == (1, 2)
    assert schema.field("price") is None


def test_optionally_gives_the_schema_itself_where_nothing_changes() -> None:
    assert INT32.optionally(False) is INT32
    assert INT32.optionally().optional


def test_a_default_must_fit() -> None:
    with pytest.raises(DataError, match="the default value is of Python type str"):
        INT32.replace(default="1")
