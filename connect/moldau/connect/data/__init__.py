"""Connect's data: schemas, structs, headers, and Python values for them.

    ORDER = Schema.struct({"id": INT64, "paid": Schema.decimal(2, optional=True)}, name="order")
    order = Struct(ORDER, {"id": 7, "paid": Decimal("12.50")})

| schema type | Python value |
|-|-|
| INT8, INT16, INT32, INT64 | int |
| FLOAT32, FLOAT64 | float |
| BOOLEAN, STRING | bool, str |
| BYTES | bytes |
| ARRAY, MAP, STRUCT | list, dict, `Struct` |
| Decimal, Date, Time, Timestamp | `decimal.Decimal`, `date`, `time`, `datetime` in UTC |

A value without a schema is what JSON knows: None, bool, int, float, str, list, dict; also bytes.
"""

from __future__ import annotations

from moldau.connect.data.headers import Header, Headers
from moldau.connect.data.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT8,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    Field,
    Logical,
    Schema,
    SchemaAndValue,
    Type,
)
from moldau.connect.data.struct import Struct
from moldau.connect.data.validation import validate

__all__ = [
    "BOOLEAN", "BYTES", "DATE", "FLOAT32", "FLOAT64", "INT8", "INT16", "INT32", "INT64",
    "OPTIONAL_BOOLEAN", "OPTIONAL_BYTES", "OPTIONAL_FLOAT32", "OPTIONAL_FLOAT64", "OPTIONAL_INT8",
    "OPTIONAL_INT16", "OPTIONAL_INT32", "OPTIONAL_INT64", "OPTIONAL_STRING", "STRING", "TIME",
    "TIMESTAMP", "Field", "Header", "Headers", "Logical", "Schema", "SchemaAndValue", "Struct",
    "Type", "validate",
]  # fmt: skip
