"""What the tests of converters with a registry share: a registry, a converter, and an order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from typing import Any, TypeVar

import pytest

from moldau.connect.api import Converter
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
    Schema,
    Struct,
)
from tests.client.serdes.served_registry import ServedRegistry, served_registry

C = TypeVar("C", bound=Converter)

INNER = Schema.struct({"a": INT8, "b": INT16.optionally()}, name="shop.Inner")
FIELDS = {
    "id": INT64,
    "count": INT32.replace(default=5, optional=True),
    "price": Schema.decimal(2),
    "ratio": FLOAT32,
    "weight": FLOAT64.optionally(),
    "paid": BOOLEAN,
    "name": STRING,
    "raw": BYTES,
    "day": DATE,
    "at": TIME.optionally(),
    "seen": TIMESTAMP,
    "inner": INNER.optionally(),
    "more": Schema.array(INNER),
    "tags": Schema.array(STRING),
    "by_name": Schema.map(STRING, INT64),
}
VALUES: dict[str, Any] = {
    "id": 2**40,
    "count": 3,
    "price": Decimal("-12.50"),
    "ratio": 0.5,
    "weight": 1e100,
    "paid": True,
    "name": "x",
    "raw": b"\x00\xff",
    "day": date(2026, 2, 3),
    "at": time(4, 5, 6, 789000),
    "inner": Struct(INNER.optionally(), {"a": -1, "b": 2}),
}


@pytest.fixture
def registry() -> Iterator[ServedRegistry]:
    with served_registry() as served:
        yield served


def made(cls: type[C], url: str, **props: str) -> C:
    """A converter of values, configured."""
    converter = cls()
    given = {name.replace("_", "."): text for name, text in props.items()}
    converter.configure({"schema.registry.url": url, **given}, False)
    return converter
