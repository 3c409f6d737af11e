"""The columns that control incremental reads of a table or query, checked before the first read.

A mistake is raised as a ConnectError `cause -> hint`; validation reports the same as a problem of
the wrong setting.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from moldau.connect.api import ConnectError, Problem
from moldau.connectors.jdbc.catalog import duckdb_type, read_table
from moldau.connectors.jdbc.columns import Column, Table, TableId
from moldau.connectors.jdbc.description import changed_columns
from moldau.connectors.jdbc.dialects import Dialect
from moldau.connectors.jdbc.failures import DatabaseFailure, Meaning, understand
from moldau.connectors.jdbc.layout import EPOCH
from moldau.connectors.jdbc.query import Bound, Criteria, Mode, Select, build_select
from moldau.connectors.jdbc.source_settings import SourceConfig
from moldau.errors import without_frames

CHECKED_TABLES: Final = 20
"""The most tables that are checked while a config is validated."""

_INCREMENTING: Final = "incrementing.column.name"
_TIMESTAMP: Final = "timestamp.column.name"
_EXPLAINING: Final = frozenset({"postgresql", "sqlite", "mysql", "mariadb", "duckdb"})
# These compare no column with a value of another type, or check rights, before they read a row.
_CHECKING: Final = frozenset({"postgresql", "mysql", "mariadb"})
_OWN_CLAUSE: Final = re.compile(
    r"\b(where|group\s+by|having|order\s+by|limit|union|intersect|except)\b", re.I
)
_NO_RIGHT: Final = re.compile("privilege|denied|permission", re.I)


class WrongColumn(ConnectError):
    """A table has no such column as the setting `key` names. The text says what to do."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def criteria_of(config: SourceConfig, table: Table) -> Criteria:
    """Return the columns that control the reads of a table. Raise WrongColumn for a bad one."""
    mode = config.mode
    assert mode is not None
    stamps: tuple[str, ...] = ()
    number: str | None = None
    if mode.uses_timestamp:
        named = config.timestamps_of(str(table.id))
        stamps = tuple(_column(table, name, _TIMESTAMP) for name in named)
    if mode.uses_incrementing:
        number = config.incrementing_of(str(table.id)) or _auto_increment(table)
        number = _column(table, number, _INCREMENTING)
    if config.validate_non_null:
        if number is not None and table.by_name[number].nullable:
            raise _nullable(table, _INCREMENTING, number)
        if stamps and all(table.by_name[name].nullable for name in stamps):
            raise _nullable(table, _TIMESTAMP, ", ".join(stamps))
    return Criteria(mode, stamps, number, is_of_table=True)


def criteria_of_query(config: SourceConfig) -> Criteria:
    """Return the columns that control the reads of `query`."""
    assert config.mode is not None
    return Criteria(
        config.mode,
        config.timestamp_columns if config.mode.uses_timestamp else (),
        config.incrementing_column if config.mode.uses_incrementing else None,
    )


def refused_query(config: SourceConfig, cause: str) -> str:
    """Return the error message for a `query` whose SQL the database rejects."""
    if _NO_RIGHT.search(cause):
        return cause
    hint = "correct query, or the names of columns in the config"
    if config.mode is not Mode.BULK and _OWN_CLAUSE.search(config.query_text):
        hint = (
            "the connector adds WHERE and ORDER BY at the end of the query: write "
            "query=SELECT * FROM (...) AS q, with the query in the place of the dots"
        )
    return f"{cause.partition(' -> ')[0]} -> {hint}"


def refused_columns(dialect: Dialect, columns: Sequence[Column]) -> str | None:
    """Return the error message for columns of `query` whose values the driver would change."""
    names = changed_columns(columns)
    if not names:
        return None
    if dialect.name == "mysql":
        return (
            f"the server sends six digits of a FLOAT ({', '.join(names)}) -> for all digits write "
            f"({names[0]} + 0e0) AS {names[0]} in query"
        )
    return (
        f"the driver would change values of {', '.join(names)} -> write "
        f"CAST({names[0]} AS VARCHAR) AS {names[0]} in query"
    )


def refused_table(config: SourceConfig, cause: str) -> str:
    """Return the error message for a table with columns that the database does not compare."""
    assert config.mode is not None
    keys = _controls(config.mode)
    if " -> " in cause or not keys:
        return cause
    needs = " and ".join(f"{key} to name a column of {kind}" for key, kind in keys.items())
    return f"{cause} -> correct the columns: mode {config.mode.value} needs {needs}"


def table_problems(
    config: SourceConfig,
    connection: Connection,
    tables: Sequence[TableId],
    *,
    is_dry_run: bool = False,
) -> list[Problem]:
    """Return what prevents reads of the tables: columns that are not there or of an unfit type.

    A right that is missing may be granted later, so only a dry run reports it. An error of the
    database ends the search, because it ends the transaction.
    """
    if config.mode is None or config.wrong or any(True for _ in config.check()):
        return []
    found = []
    for each in tables[:CHECKED_TABLES]:
        table = read_table(connection, each)
        if table is None:
            continue
        try:
            failure = _explained(config, connection, table)
        except WrongColumn as error:
            found.append(Problem(error.key, str(error)))
            continue
        if failure is None:
            continue
        is_right = _NO_RIGHT.search(failure.cause) is not None
        if is_dry_run or not is_right:
            keys = [] if is_right else list(_controls(config.mode))
            text = f"table {table.id}: {failure}"
            found.append(
                Problem(keys[0] if keys else "connection.user", refused_table(config, text))
            )
        break
    return found


def _explained(
    config: SourceConfig, connection: Connection, table: Table
) -> DatabaseFailure | None:
    """Return why the database rejects the reads of a table. None of its rows are read."""
    dialect, criteria = config.dialect(), criteria_of(config, table)
    if dialect.name not in _CHECKING:
        return None
    select = build_select(dialect, f"SELECT * FROM {dialect.table(table.id)}", criteria)
    try:
        connection.exec_driver_sql(f"EXPLAIN {select.text}", _examples(config, select)).close()
    except SQLAlchemyError as error:
        failure = understand(without_frames(error))
        return None if failure.meaning is Meaning.TRANSIENT else failure
    return None


def _controls(mode: Mode) -> dict[str, str]:
    """Return the settings that name the columns of a mode, and what these columns hold."""
    keys = {}
    if mode.uses_timestamp:
        keys[_TIMESTAMP] = "times"
    if mode.uses_incrementing:
        keys[_INCREMENTING] = "numbers"
    return keys


def query_problems(config: SourceConfig, connection: Connection) -> list[Problem]:
    """Return a problem if the database rejects `query` with the mode's clauses. It is not run."""
    dialect = config.dialect()
    is_select = re.match(r"\s*(select|with)\b", config.query_text, re.I) is not None
    if config.mode is None or config.wrong or any(True for _ in config.check()):
        return []
    if dialect.name not in _EXPLAINING or not is_select:
        return []
    text, suffix = dialect.escape(config.query_text), dialect.escape(config.query_suffix)
    select = build_select(dialect, text, criteria_of_query(config), suffix)
    try:
        examples = _examples(config, select)
        if dialect.name == "duckdb":
            rows = connection.exec_driver_sql(f"DESCRIBE {select.text}", examples).fetchall()
            refused = refused_columns(
                dialect, [Column(row[0], duckdb_type(row[1])) for row in rows]
            )
            return [] if refused is None else [Problem("query", refused)]
        connection.exec_driver_sql(f"EXPLAIN {select.text}", examples).close()
    except SQLAlchemyError as error:
        failure = understand(without_frames(error))
        if failure.meaning is not Meaning.PERMANENT or _NO_RIGHT.search(failure.cause):
            return []
        return [Problem("query", refused_query(config, failure.cause))]
    return []


def _examples(config: SourceConfig, select: Select) -> tuple[object, ...]:
    instant = config.dialect().instant_parameter(EPOCH, config.zone(), has_zone=False)
    return tuple(0 if bound in (Bound.LAST, Bound.UPTO) else instant for bound in select.bounds)


def _column(table: Table, name: str, key: str) -> str:
    for column in table.by_name:
        if column == name or column.lower() == name.lower():
            return column
    has = ", ".join(table.by_name)
    text = f"table {table.id} has no column {name} -> correct {key}; the table has {has}"
    raise WrongColumn(key, text)


def _auto_increment(table: Table) -> str:
    found = [column.name for column in table.columns if column.is_auto_increment]
    if len(found) != 1:
        text = f"table {table.id} has {len(found)} auto-increment columns -> set {_INCREMENTING}"
        raise WrongColumn(_INCREMENTING, text)
    return found[0]


def _nullable(table: Table, key: str, columns: str) -> WrongColumn:
    what = key.partition(".")[0]
    return WrongColumn(
        key,
        f"table {table.id}: the {what} column {columns} may be NULL, and such rows would never be "
        "read -> make it NOT NULL, or set validate.non.null=false",
    )
