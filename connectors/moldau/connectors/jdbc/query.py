"""The SELECT that a source runs, in each mode. Pure text; instants are parameters.

The columns that control the reads are compared so that no row is skipped (section of Confluent's
documentation "incremental query modes"): `>` the last incrementing value, and for timestamps a
window that ends at the database's own clock minus a delay. Where the database shows its open
transactions, both end below what these may still commit (see `late_commits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from moldau.connectors.jdbc.dialects import Dialect
from moldau.deferred import dataclass


class Mode(Enum):
    """How a source finds new rows."""

    BULK = "bulk"
    INCREMENTING = "incrementing"
    TIMESTAMP = "timestamp"
    TIMESTAMP_INCREMENTING = "timestamp+incrementing"

    @property
    def uses_timestamp(self) -> bool:
        return self in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)

    @property
    def uses_incrementing(self) -> bool:
        return self in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)


class Bound(Enum):
    """The meaning of a placeholder in the query."""

    BEGIN = "the last timestamp"
    END = "the upper bound of timestamps"
    LAST = "the last incrementing value"
    UPTO = "the highest incrementing value to read"


@dataclass(frozen=True, slots=True)
class Select:
    """A statement, and the meaning of each of its placeholders, in order."""

    text: str
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class Criteria:
    """The mode, and the columns that control the reads."""

    mode: Mode
    timestamp_columns: Sequence[str] = ()
    incrementing_column: str | None = None
    is_of_table: bool = False
    """Whether the columns are those of a table, by their whole names. A query's may include the
    table of a column (`t.id`)."""


def build_select(
    dialect: Dialect, source: str, criteria: Criteria, suffix: str = "", *, has_limit: bool = False
) -> Select:
    """Add WHERE and ORDER BY to `source`, which is `SELECT * FROM t` or the user's query.

    `has_limit`: read incrementing values up to a limit.
    """
    tail = f" {suffix.strip()}" if suffix.strip() else ""
    mark = dialect.placeholder
    if criteria.mode is Mode.BULK:
        return Select(source + tail)
    if criteria.mode is Mode.INCREMENTING:
        column = _incrementing(dialect, criteria)
        where = f" WHERE {column} > {mark(1)}"
        bounds: tuple[Bound, ...] = (Bound.LAST,)
        if has_limit:
            where, bounds = f"{where} AND {column} <= {mark(2)}", (Bound.LAST, Bound.UPTO)
        return Select(f"{source}{where} ORDER BY {column} ASC{tail}", bounds)
    stamp = _timestamp(dialect, criteria)
    if criteria.mode is Mode.TIMESTAMP:
        where = f" WHERE {stamp} > {mark(1)} AND {stamp} < {mark(2)} ORDER BY {stamp} ASC"
        return Select(source + where + tail, (Bound.BEGIN, Bound.END))
    column = _incrementing(dialect, criteria)
    where = (
        f" WHERE {stamp} < {mark(1)} AND (({stamp} = {mark(2)} AND {column} > {mark(3)})"
        f" OR {stamp} > {mark(4)}) ORDER BY {stamp}, {column} ASC"
    )
    return Select(source + where + tail, (Bound.END, Bound.BEGIN, Bound.LAST, Bound.BEGIN))


def newest(dialect: Dialect, source: str, criteria: Criteria) -> str:
    """Return a query for the row of `source` with the highest value above a parameter."""
    column = _incrementing(dialect, criteria)
    mark = dialect.placeholder(1)
    return f"{source} WHERE {column} > {mark} ORDER BY {column} DESC LIMIT 1"


def _incrementing(dialect: Dialect, criteria: Criteria) -> str:
    assert criteria.incrementing_column, "the mode needs an incrementing column"
    return _column(dialect, criteria, criteria.incrementing_column)


def _timestamp(dialect: Dialect, criteria: Criteria) -> str:
    names = criteria.timestamp_columns
    assert names, "the mode needs a timestamp column"
    columns = [dialect.instant(_column(dialect, criteria, name)) for name in names]
    return columns[0] if len(columns) == 1 else f"COALESCE({', '.join(columns)})"


def _column(dialect: Dialect, criteria: Criteria, name: str) -> str:
    """Return a quoted name. That of a query's column may include the table (`t.id`), for queries
    that join; a table's column is the name as it stands, which may have a dot in it."""
    if criteria.is_of_table:
        return dialect.identifier(name)
    return ".".join(dialect.identifier(part) for part in name.split("."))
