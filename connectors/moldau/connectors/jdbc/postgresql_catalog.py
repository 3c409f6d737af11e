"""PostgreSQL's types by their numbers (OIDs), in the catalog and in results.

A type that Connect does not have is carried as the server's own text, which the server reads again:
`1 mon`, `12:00:00+02`, `(1,a)`. Domains are their base types; an array of domains, enums or other
types of users is text, and a sink also writes lists into it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy.engine import Connection

from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, Table, TableId

NUMERIC: Final = 1700
KINDS: Final[Mapping[int, ColumnKind]] = {
    16: ColumnKind.BOOLEAN,
    17: ColumnKind.BYTES,
    20: ColumnKind.INT64,
    21: ColumnKind.INT16,
    23: ColumnKind.INT32,
    26: ColumnKind.INT64,
    **dict.fromkeys((18, 19, 25, 1042, 1043), ColumnKind.STRING),
    700: ColumnKind.FLOAT32,
    701: ColumnKind.FLOAT64,
    1082: ColumnKind.DATE,
    1083: ColumnKind.TIME,
    1114: ColumnKind.TIMESTAMP,
    1184: ColumnKind.TIMESTAMP_TZ,
    NUMERIC: ColumnKind.DECIMAL,
}
"""The kinds of the types whose values the driver converts."""
OWN_ARRAY: Final = ColumnType(ColumnKind.STRING, element=ColumnType(ColumnKind.STRING))
"""An array of a type that users have made (their numbers begin at 16384): `{sad,ok}`."""
_JSON: Final = frozenset((114, 3802))
_RELATION: Final = (
    "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') "
    "AND CASE WHEN %s::text IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = %s END"
)
_COLUMNS: Final = """
WITH RECURSIVE based (number, type, modifier, dimensions, is_not_null) AS (
    SELECT attnum, atttypid, atttypmod, attndims::int, attnotnull FROM pg_attribute
    WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT number, typbasetype, greatest(modifier, typtypmod), greatest(dimensions, typndims),
        is_not_null OR typnotnull
    FROM based JOIN pg_type ON oid = type WHERE typtype = 'd'
)
SELECT attname, type::bigint, modifier, dimensions, is_not_null,
    coalesce(pg_get_expr(adbin, adrelid), ''), attidentity <> '',
    typcategory = 'A' AND t.oid >= 16384
FROM based JOIN pg_type t ON t.oid = type AND typtype <> 'd'
    JOIN pg_attribute ON attrelid = %s AND attnum = number
    LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
ORDER BY number
"""
_KEY: Final = (
    "SELECT attname FROM pg_index, unnest(indkey) WITH ORDINALITY AS key (number, place), "
    "pg_attribute WHERE indrelid = %s AND indisprimary AND attrelid = indrelid "
    "AND attnum = number ORDER BY place"
)


def postgresql_table(connection: Connection, table: TableId) -> Table | None:
    """Read a table's columns and key. Return None if it does not exist."""
    named = (table.name, table.schema, table.schema)
    relation = connection.exec_driver_sql(_RELATION, named).scalar()
    if relation is None:
        return None
    rows = connection.exec_driver_sql(_COLUMNS, (relation, relation)).fetchall()
    key = connection.exec_driver_sql(_KEY, (relation,)).fetchall()
    columns = tuple(_column(row) for row in rows)
    return Table(table, columns, tuple(str(row[0]) for row in key)) if columns else None


def _column(row: Sequence[Any]) -> Column:
    name, number, modifier, dimensions, is_not_null, default, has_identity, is_own_array = row
    increments = has_identity or default.startswith("nextval(")
    return Column(
        name,
        OWN_ARRAY if is_own_array else postgresql_type(number, _digits(modifier), dimensions),
        nullable=not is_not_null,
        has_default=bool(default) or increments,
        is_auto_increment=increments,
    )


Digits = tuple[int | None, int | None]
"""The precision and the scale of numeric."""
_NO_DIGITS: Final[Digits] = (None, None)


def postgresql_type(number: int, digits: Digits = _NO_DIGITS, dimensions: int = 1) -> ColumnType:
    """Return the column type for an OID, digits, and the declared dimensions of an array.

    Only arrays of the server's own types are arrays here; of the others the driver knows nothing.
    """
    element = _element(number)
    if element is not None:
        found = postgresql_type(element, digits)
        for _ in range(max(1, dimensions)):
            found = ColumnType(ColumnKind.ARRAY, element=found)
        return found
    if number == NUMERIC:
        precision, scale = digits
        return ColumnType(ColumnKind.DECIMAL, precision, scale if scale is None else _signed(scale))
    return ColumnType(ColumnKind.JSON if number in _JSON else KINDS.get(number, ColumnKind.STRING))


def _digits(modifier: int) -> Digits:
    return _NO_DIGITS if modifier < 4 else (modifier - 4 >> 16 & 0xFFFF, modifier - 4 & 0xFFFF)


def _signed(scale: int) -> int:
    """Return the scale, which since PostgreSQL 15 is a signed number of 11 bits."""
    return ((scale & 0x7FF) ^ 1024) - 1024


@cache
def _element(number: int) -> int | None:
    """Return the OID of the elements of an array type of the server's own; None for other types."""
    from psycopg.postgres import types

    info = types.get(number)
    return info.oid if info is not None and info.array_oid == number else None


def text_types() -> Iterator[int]:
    """Yield the OIDs of the server's own types that are carried as text."""
    from psycopg.postgres import types

    return (info.oid for info in types if info.oid not in KINDS)


def load_as_text(driver: Any) -> None:
    """Make a connection return these types as text; else a month would be 30 days."""
    from psycopg.types.string import TextLoader

    for number in text_types():
        driver.adapters.register_loader(number, TextLoader)
