"""The SQL that databases share: quoting, CREATE, ALTER, INSERT, UPSERT, UPDATE, DELETE.

Statements are texts with the driver's own placeholders, and each is written for one row; drivers
repeat it for many. Values are never part of a statement, except for defaults in DDL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, tzinfo
from decimal import Decimal
from typing import ClassVar

from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, TableId


class Dialect:
    """The SQL of one database."""

    name: ClassVar[str]
    quote_marks: ClassVar[tuple[str, str]] = ('"', '"')
    mark: ClassVar[str] = "?"
    """The driver's placeholder; `%s` means that a percent sign in a statement is doubled."""
    types: ClassVar[Mapping[ColumnKind, str]]
    decimal_digits: ClassVar[tuple[int, int]] = 38, 38
    """The most digits of a DECIMAL, and the most of them after the point."""
    key_types: ClassVar[Mapping[ColumnKind, str]] = {}
    """Types that are different if a column is part of the primary key."""
    now: ClassVar[str]
    """A query for the database's clock in UTC: microseconds since 1970."""
    true: ClassVar[str] = "TRUE"
    false: ClassVar[str] = "FALSE"
    default_schema: ClassVar[str | None] = None
    shows_transactions: ClassVar[bool] = False
    """Whether a source can see what is open (`open_transactions`)."""
    has_one_writer: ClassVar[bool] = False
    """Whether transactions that write follow one another, so that ids and times do as well."""

    def __init__(self, *, quotes: bool = True) -> None:
        self._quotes = quotes

    def session(self, zone: str) -> tuple[str, ...]:
        """Return statements for a new connection, so that times without a zone are in `zone`."""
        return ()

    def placeholder(self, position: int) -> str:
        """Return the placeholder of a parameter; positions start at 1."""
        return self.mark

    def placeholders(self, count: int, first: int = 1) -> list[str]:
        return [self.placeholder(first + each) for each in range(count)]

    def escape(self, text: str) -> str:
        """Escape a user's SQL for a driver that reads `%` as a placeholder."""
        return text.replace("%", "%%") if self.mark == "%s" else text

    def identifier(self, name: str) -> str:
        """Return a quoted name, which keeps its case and special characters."""
        if not self._quotes:
            return self.escape(name)
        opening, closing = self.quote_marks
        return self.escape(f"{opening}{name.replace(closing, closing * 2)}{closing}")

    def table(self, table: TableId) -> str:
        parts = (table.catalog, table.schema, table.name)
        return ".".join(self.identifier(part) for part in parts if part)

    def names(self, columns: Sequence[str]) -> str:
        return ", ".join(self.identifier(column) for column in columns)

    def type_name(self, column: ColumnType, *, in_key: bool = False) -> str:
        """Return the type that auto.create and auto.evolve write for a column."""
        if column.kind is ColumnKind.DECIMAL:
            return self.decimal(column)
        if column.kind is ColumnKind.ARRAY:
            return self.array(column)
        if in_key and column.kind in self.key_types:
            return self.key_types[column.kind]
        return self.types[column.kind]

    def decimal(self, column: ColumnType) -> str:
        """Return a type with the scale of the schema. A scale that the database does not have, as
        that of a source's NUMERIC without one, becomes the general type's: the sink refuses a value
        that would be rounded."""
        digits, scale_max = self.decimal_digits
        if column.scale is None or column.scale > scale_max:
            return self.types[ColumnKind.DECIMAL]
        return f"DECIMAL({column.precision or digits},{max(column.scale, 0)})"

    def array(self, column: ColumnType) -> str:
        """Return the type of an array column: JSON, for databases without arrays."""
        return self.types[ColumnKind.JSON]

    def reading(self, column: Column) -> str:
        """Return the expression that a source selects for a column of a table."""
        return self.identifier(column.name)

    def instant(self, column: str) -> str:
        """Return an expression for a timestamp column that sorts rows by time."""
        return column

    def instant_parameter(self, instant: datetime, zone: tzinfo, *, has_zone: bool) -> object:
        """Return a time as the parameter to compare with such an expression."""
        return instant if has_zone else instant.astimezone(zone).replace(tzinfo=None)

    def literal(self, value: object) -> str:
        """Return a default value as SQL."""
        if isinstance(value, bool):
            return self.true if value else self.false
        if isinstance(value, int | float | Decimal):
            return str(value)
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        if isinstance(value, datetime):
            value = value.replace(tzinfo=None).isoformat(sep=" ")
        elif isinstance(value, date | time):
            value = value.isoformat()
        text = str(value).replace("'", "''")
        return self.escape(f"'{text}'")

    def column_definition(self, column: Column, *, in_key: bool = False) -> str:
        parts = [self.identifier(column.name), self.type_name(column.type, in_key=in_key)]
        if column.default is not None:
            parts.append(f"DEFAULT {self.literal(column.default)}")
        parts.append("NULL" if column.nullable and not in_key else "NOT NULL")
        return " ".join(parts)

    def create_table(self, table: TableId, columns: Sequence[Column], key: Sequence[str]) -> str:
        lines = [self.column_definition(each, in_key=each.name in key) for each in columns]
        if key:
            lines.append(f"PRIMARY KEY ({self.names(key)})")
        return f"CREATE TABLE {self.table(table)} ({', '.join(lines)})"

    def add_columns(self, table: TableId, columns: Sequence[Column]) -> list[str]:
        """Return the statements that add columns, to be run in order."""
        added = ", ".join(f"ADD COLUMN {self.column_definition(each)}" for each in columns)
        return [f"ALTER TABLE {self.table(table)} {added}"]

    def insert(self, table: TableId, columns: Sequence[str]) -> str:
        marks = ", ".join(self.placeholders(len(columns)))
        return f"INSERT INTO {self.table(table)} ({self.names(columns)}) VALUES ({marks})"

    def upsert(self, table: TableId, key: Sequence[str], columns: Sequence[str]) -> str:
        """Return SQL to insert a row or update its non-key columns. `columns` includes the key."""
        return f"{self.insert(table, columns)} {self.on_conflict(key, columns)}"

    def on_conflict(self, key: Sequence[str], columns: Sequence[str]) -> str:
        others = [column for column in columns if column not in key]
        if not others:
            return f"ON CONFLICT ({self.names(key)}) DO NOTHING"
        updates = ", ".join(f"{n} = EXCLUDED.{n}" for n in map(self.identifier, others))
        return f"ON CONFLICT ({self.names(key)}) DO UPDATE SET {updates}"

    def update(self, table: TableId, key: Sequence[str], columns: Sequence[str]) -> str:
        """Return an UPDATE. Its parameters are the non-key columns in order, then the key."""
        others = [column for column in columns if column not in key]
        sets = self._equalities(others, 1, ", ")
        where = self._equalities(key, 1 + len(others), " AND ")
        return f"UPDATE {self.table(table)} SET {sets} WHERE {where}"

    def delete_all(self, table: TableId) -> str:
        return f"DELETE FROM {self.table(table)}"

    def delete(self, table: TableId, key: Sequence[str]) -> str:
        return f"{self.delete_all(table)} WHERE {self._equalities(key, 1, ' AND ')}"

    def _equalities(self, columns: Sequence[str], first: int, joint: str) -> str:
        return joint.join(
            f"{self.identifier(column)} = {self.placeholder(first + number)}"
            for number, column in enumerate(columns)
        )


class MergeDialect(Dialect):
    """The SQL of a database that upserts with MERGE."""

    dual: ClassVar[str] = ""
    merge_end: ClassVar[str] = ""
    merge_hint: ClassVar[str] = ""

    def upsert(self, table: TableId, key: Sequence[str], columns: Sequence[str]) -> str:
        named = zip(self.placeholders(len(columns)), columns, strict=True)
        values = ", ".join(f"{mark} {self.identifier(column)}" for mark, column in named)
        matching = " AND ".join(f"target.{n} = incoming.{n}" for n in map(self.identifier, key))
        others = [self.identifier(column) for column in columns if column not in key]
        updates = ", ".join(f"target.{n} = incoming.{n}" for n in others)
        matched = f" WHEN MATCHED THEN UPDATE SET {updates}" if others else ""
        incoming = ", ".join(f"incoming.{self.identifier(column)}" for column in columns)
        return (
            f"MERGE INTO {self.table(table)}{self.merge_hint} target "
            f"USING (SELECT {values}{self.dual}) incoming ON ({matching}){matched} "
            f"WHEN NOT MATCHED THEN INSERT ({self.names(columns)}) VALUES ({incoming})"
            f"{self.merge_end}"
        )
