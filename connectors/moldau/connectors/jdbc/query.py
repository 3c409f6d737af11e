"""The SELECT that a source runs, in each mode. Pure text; instants are parameters.

The columns that control the reads are compared so that no row is skipped (section of Confluent's
documentation "incremental query modes"): `>` the last incrementing value, and for timestamps a
window that ends at the database's own clock minus a delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from moldau.connectors.jdbc.dialects import Dialect


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


def build_select(dialect: Dialect, source: str, criteria: Criteria, suffix: str = "") -> Select:
    """Add WHERE and ORDER BY to `source`, which is `SELECT * FROM t` or the user's query."""
    tail = f" {suffix.strip()}" if suffix.strip() else ""
    mark = dialect.placeholder
    if criteria.mode is Mode.BULK:
        return Select(source + tail)
    if criteria.mode is Mode.INCREMENTING:
        column = _incrementing(dialect, criteria)
        where = f" WHERE {column} > {mark(1)} ORDER BY {column} ASC"
        return Select(source + where + tail, (Bound.LAST,))
    stamp = _timestamp(dialect, criteria.timestamp_columns)
    if criteria.mode is Mode.TIMESTAMP:
        where = f" WHERE {stamp} > {mark(1)} AND {stamp} < {mark(2)} ORDER BY {stamp} ASC"
        return Select(source + where + tail, (Bound.BEGIN, Bound.END))
    column = _incrementing(dialect, criteria)
    where = (
        f" WHERE {stamp} < {mark(1)} AND (({stamp} = {mark(2)} AND {column} > {mark(3)})"
        f" OR {stamp} > {mark(4)}) ORDER BY {stamp}, {column} ASC"
    )
    return Select(source + where + tail, (Bound.END, Bound.BEGIN, Bound.LAST, Bound.BEGIN))


def _incrementing(dialect: Dialect, criteria: Criteria) -> str:
    assert criteria.incrementing_column, "the mode needs an incrementing column"
    return _column(dialect, criteria.incrementing_column)


def _timestamp(dialect: Dialect, names: Sequence[str]) -> str:
    assert names, "the mode needs a timestamp column"
    columns = [dialect.instant(_column(dialect, name)) for name in names]
    return columns[0] if len(columns) == 1 else f"COALESCE({', '.join(columns)})"


def _column(dialect: Dialect, name: str) -> str:
    """Return a quoted name. It may include the table (`t.id`), for queries that join."""
    return ".".join(dialect.identifier(part) for part in name.split("."))
