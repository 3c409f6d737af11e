"""Expressions compute fields and choose records, and reach nothing else."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.api import Headers, SinkRecord
from moldau.connect.data import FLOAT64, INT64, OPTIONAL_STRING, STRING, Schema, Struct, Type
from moldau.connect.errors import DataError
from moldau.connect.transforms.expr import ExprKey, ExprValue, compiled
from moldau.errors import ConfigError
from moldau.expressions import ExpressionError

HOME = Schema.struct({"street": STRING}, optional=True)
ORDER = Schema.struct({"id": INT64, "amount": FLOAT64, "name": OPTIONAL_STRING, "home": HOME})
VALUES: dict[str, Any] = {"a": 3, "b": 2.5, "s": "Moldau", "n": None, "m": {"x": [1, 2]}}


def evaluate(text: str) -> Any:
    return compiled(text).value(VALUES.__getitem__)


def made(**props: str) -> ExprValue:
    transform = ExprValue()
    transform.configure({name.replace("__", "."): text for name, text in props.items()})
    return transform


def order(**values: Any) -> SinkRecord:
    struct = Struct(ORDER, {"id": 1, "amount": 10.0, **values})
    return SinkRecord("orders", 2, value_schema=ORDER, value=struct, offset=7)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a + b * 2", 8.0),
        ("-a % 2", 1),
        ("7 // a", 2),
        ("1 < a <= 3", True),
        ("a == 3 and not n", True),
        ("n or s", "Moldau"),
        ("'x' if n is None else 'y'", "x"),
        ("s.lower() + str(a)", "moldau3"),
        ("s[0:3].upper()", "MOL"),
        ("len(s)", 6),
        ("'old' in s", True),
        ("a in [1, 2]", False),
        ("m.x[1]", 2),
        ("m.y.z", None),
        ("coalesce(n, m.y, 5)", 5),
        ("round(b)", 2),
        ("decimal(b)", Decimal("2.5")),
        ("s.replace('o', '0')", "M0ldau"),
        ("max(a, 7)", 7),
    ],
)
def test_what_expressions_give(text: str, value: Any) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a +",
        "__import__('os')",
        "open('x')",
        "(lambda: 1)()",
        "[x for x in s]",
        "2 ** 1000000",
        "1 << 100000",
        "s.format(a)",
        "s.__class__()",
        "f'{a}'",
        "a if a else (yield)",
        "max(*s)",
        "not " * 100 + "a",
        "a" * 3000,
        "a := 3",
        "...",
    ],
)
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(ExpressionError):
        compiled(text)


@pytest.mark.parametrize(
    "text", ["s * 1000000", "s + 1", "1 / 0", "s[99]", "int(s)", "s.x", "s < a"]
)
def test_an_expression_that_fails_is_named(text: str) -> None:
    with pytest.raises(DataError, match="failed: "):
        evaluate(text)


def test_private_attributes_are_fields_only() -> None:
    with pytest.raises(DataError, match="has no fields"):
        evaluate("s.__class__")


def test_fields_of_structs_get_schemas() -> None:
    record = made(set__total="amount * 2", set__label="coalesce(name, _topic)").apply(order())

    assert record is not None
    assert record.value.to_dict() == {
        "id": 1,
        "amount": 10.0,
        "name": None,
        "home": None,
        "total": 20.0,
        "label": "orders",
    }
    assert record.value_schema is not None
    total = record.value_schema.field("total")
    assert total is not None
    assert (total.schema.type, total.schema.optional) == (Type.FLOAT64, True)
    record.value.validate()


def test_a_field_can_be_replaced_with_a_declared_type() -> None:
    record = made(set__id="str(id)", type__id="string", set__n="_offset", type__n="int32").apply(
        order()
    )

    assert record is not None
    assert (record.value["id"], record.value["n"]) == ("1", 7)
    assert [field.name for field in record.value.schema.fields][-1] == "n"


def test_a_value_that_does_not_fit_its_declared_type_fails() -> None:
    with pytest.raises(DataError, match=r"set\.x is 1000, which does not fit"):
        made(set__x="1000", type__x="int8").apply(order())


def test_where_drops_records() -> None:
    keep = made(where='amount > 5 and not _topic.startswith("test")')

    assert keep.apply(order()) is not None
    assert keep.apply(order(amount=1.0)) is None


def test_values_without_schema_and_keys() -> None:
    record = SinkRecord("t", 0, key={"a": 1}, value={"b": 2}, headers=Headers())

    changed = made(set__c="b + _key.a", set__h="_headers.x").apply(record)

    assert changed is not None
    assert changed.value == {"b": 2, "c": 3, "h": None}
    assert record.value == {"b": 2}
    on_key = ExprKey()
    on_key.configure({"set.z": "a * 2"})
    changed = on_key.apply(record)
    assert changed is not None
    assert changed.key == {"a": 1, "z": 2}


@pytest.mark.parametrize(
    ("props", "reason"),
    [
        ({}, "needs `where` or at least one"),
        ({"where": "a +"}, "is no expression"),
        ({"set__x": "open(1)"}, "no function 'open'"),
        ({"set__x": "1", "type__x": "int65"}, "String must be one of: int8"),
    ],
)
def test_what_is_wrong_is_told_before_the_first_record(props: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        made(**props)
