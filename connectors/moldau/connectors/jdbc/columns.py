"""Tables and columns as this connector represents them, the same for every database."""

from __future__ import annotations

import re
from dataclasses import field
from enum import Enum

from moldau.deferred import dataclass


class ColumnKind(Enum):
    """The kind of data in a column."""

    BOOLEAN = "boolean"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    DECIMAL = "decimal"
    STRING = "string"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMP_TZ = "timestamp with time zone"
    JSON = "json"
    ARRAY = "array"


INTEGERS = (ColumnKind.INT8, ColumnKind.INT16, ColumnKind.INT32, ColumnKind.INT64)


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A kind with its details: precision and scale of decimals, the element of arrays. A STRING
    with an element is an array whose elements only the server can read.

    `precision` of an INT64 is 20 if the database allows values beyond 2**63 - 1. `is_cast`: a
    source has to cast the column in its query, because the driver would change values.
    """

    kind: ColumnKind
    precision: int | None = None
    scale: int | None = None
    element: ColumnType | None = None
    is_cast: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `default` is written by auto.create; `has_default` is about the database."""

    name: str
    type: ColumnType
    nullable: bool = True
    has_default: bool = False
    is_auto_increment: bool = False
    default: object = None


@dataclass(frozen=True, slots=True)
class TableId:
    """A table's full name; the parts that a database does not have are None."""

    catalog: str | None
    schema: str | None
    name: str

    def __str__(self) -> str:
        """Return `db.schema.table` without quotes, as in Confluent's source offsets."""
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part)


@dataclass(frozen=True, slots=True)
class Table:
    """A table's columns in order, and the names of its primary key in order."""

    id: TableId
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    by_name: dict[str, Column] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})


_PART = re.compile(r'"((?:[^"]|"")*)"|`([^`]*)`|\[([^\]]*)\]|([^."`\[]+)')


def parse_table_id(text: str) -> TableId:
    """Parse `db.schema."Odd.name"`. One part is a table, two are schema and table."""
    parts: list[str] = []
    position = 0
    while position < len(text):
        matched = _PART.match(text, position)
        if matched is None:
            raise ValueError(f"{text!r} is no table name")
        quoted, *others = matched.groups()
        found = quoted.replace('""', '"') if quoted is not None else None
        parts.append(found if found is not None else next(o for o in others if o is not None))
        position = matched.end()
        if position < len(text) and text[position] != ".":
            raise ValueError(f"{text!r} is no table name")
        position += 1
    if not 1 <= len(parts) <= 3 or text.endswith("."):
        raise ValueError(f"{text!r} is no table name")
    catalog, schema, name = [None] * (3 - len(parts)) + parts
    assert name is not None
    return TableId(catalog, schema, name)
