"""The highest rows that a source may read of one table or query, with what the database says.

Each reading asks for the bound first, then for the open transactions, then for the rows: what is
decided is in `late_commits`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from moldau.connect.api import ConnectError
from moldau.connectors.jdbc.columns import Table
from moldau.connectors.jdbc.database import Database, PoisonError
from moldau.connectors.jdbc.late_commits import LateCommits, OpenTransaction
from moldau.connectors.jdbc.open_transactions import UnseenTransactions, open_transactions
from moldau.connectors.jdbc.query import Criteria, newest
from moldau.connectors.pace import Pace
from moldau.deferred import dataclass

_log = logging.getLogger(__name__)
_LONG_S: Final = 10.0
"""After this time the status says what rows wait for."""
_SHARED_S: Final = 1.0
"""How long a look serves other tables."""
_DIGITS: Final = 6
"""The digits of a second in the database's clock."""


@dataclass(frozen=True, slots=True)
class WaitReport:
    """How a source is called in messages, and where the status shows what it waits for."""

    name: str
    report_wait: Callable[[str | None], None]


class SharedLooks:
    """Looks at the open transactions, for all tables and queries of one task.

    Tables that are found by times and are due together share a look: their bound is one clock. Each
    uses a look once, so that its next reading sees what has ended.
    """

    def __init__(self, database: Database, pace: Pace) -> None:
        self._database = database
        self._pace = pace
        self._bound_us = 0
        self._found: list[OpenTransaction] = []
        self._end = float("-inf")
        self._readers: set[int] = set()

    def by_time(self, now_us: int, reader: int) -> tuple[int, list[OpenTransaction]]:
        """Return a clock, and what was open after it. `now_us` is the clock, read just before."""
        now = self._pace.monotonic()
        if now >= self._end or reader in self._readers:
            self._found = open_transactions(self._database, by_time=True)
            self._bound_us, self._end, self._readers = now_us, now + _SHARED_S, set()
        self._readers.add(reader)
        return self._bound_us, self._found

    def now(self) -> float:
        """Return the seconds since a fixed point."""
        return self._pace.monotonic()

    def by_number(self) -> list[OpenTransaction]:
        """Return what is open now."""
        return open_transactions(self._database, by_time=False)


class Horizon:
    """The limit of the reads of one table or query."""

    def __init__(
        self,
        database: Database,
        criteria: Criteria,
        source: str,
        wait_ms: int,
        looks: SharedLooks,
        reported: WaitReport,
    ) -> None:
        """`source` is a SELECT whose result has the incrementing column."""
        self._database = database
        self._criteria = criteria
        self._source = source
        self._wait_ms = wait_ms
        self._looks = looks
        self._reported = reported
        self._late = LateCommits(wait_ms / 1000)
        self._is_blind = False
        self._is_waiting = False
        self._step_us: int | None = None

    def highest(self, last: int) -> int | None:
        """Return the highest incrementing value to read; None if no row above `last` is ready."""
        bound = self._newest(last)
        if bound is None:
            return None
        limit = self._limit(bound, lambda: (bound, self._looks.by_number()))
        return limit if limit is not None and limit > last else None

    def until(self, now_us: int, table: Table | None) -> int | None:
        """Return the end of the times to read, in microseconds; None if no row is ready.

        `now_us` is the database's clock, read just before. Two rows of a column with whole seconds
        have one time, so the present second is read when it is over.
        """
        if self._step_us is None:
            self._step_us = self._step(table)
        limit = self._limit(now_us, lambda: self._looks.by_time(now_us, id(self)))
        return None if limit is None else limit - limit % self._step_us

    def _limit(
        self, bound: int, look: Callable[[], tuple[int, list[OpenTransaction]]]
    ) -> int | None:
        """Return the limit after a look; the bound itself if open transactions are not seen."""
        if self._is_blind:
            return bound
        try:
            bound, found = look()
        except UnseenTransactions as error:
            self._is_blind = True
            _log.warning(
                "%s: rows that commit late are lost, because open transactions cannot be seen: %s "
                "-> read from the primary, with a user that may see them (MySQL, MariaDB: GRANT "
                "PROCESS ON *.*), or set late.commits.wait.ms=0 to accept it",
                self._reported.name, error,
            )  # fmt: skip
            return bound
        limit = self._late.look(bound, found, self._looks.now())
        for transaction, seconds in limit.expired:
            _log.warning(
                "%s: %s was waited for %.0f s (late.commits.wait.ms=%d) and is not waited for any "
                "more: rows that it commits below those that are read now are lost",
                self._reported.name, transaction.description, seconds, self._wait_ms,
            )  # fmt: skip
        self._report_wait(limit.oldest if limit.oldest_s >= _LONG_S else None)
        return limit.value

    def _report_wait(self, oldest: OpenTransaction | None) -> None:
        if oldest is not None:
            text = f"{self._reported.name}: new rows wait for {oldest.description}"
            self._reported.report_wait(text)
        elif self._is_waiting:
            self._reported.report_wait(None)
        self._is_waiting = oldest is not None

    def _newest(self, last: int) -> int | None:
        """Return the highest committed value of the incrementing column above `last`."""
        text = newest(self._database.dialect, self._source, self._criteria)
        try:
            with self._database.transaction() as connection:
                result = connection.exec_driver_sql(text, (last,))
                names, row = list(result.keys()), result.fetchone()
        except PoisonError as error:
            raise ConnectError(str(error)) from error
        return None if row is None else int(row[self._position(names)])

    def _position(self, names: list[str]) -> int:
        column = self._criteria.incrementing_column or ""
        if len(names) == 1:
            return 0
        for wanted in (column, column.rpartition(".")[2]):
            for position, name in enumerate(names):
                if name == wanted or name.lower() == wanted.lower():
                    return position
        raise ConnectError(
            f"the query has no column {column} -> correct incrementing.column.name, or select it"
        )

    def _step(self, table: Table | None) -> int:
        """Return the step of the times in the columns, in microseconds. Columns of a query on MySQL
        may have whole seconds, as its columns have by default."""
        if table is None:
            digits: Any = _DIGITS if self._database.dialect.name == "postgresql" else 0
        else:
            digits = self._digits(table)
        known = _DIGITS if digits is None else int(digits)
        return int(10 ** max(0, _DIGITS - known))

    def _digits(self, table: Table) -> Any:
        columns = tuple(self._criteria.timestamp_columns)
        schema = table.id.schema or table.id.catalog
        marks = self._database.dialect.placeholders(2 + len(columns))
        text = (
            "SELECT MIN(datetime_precision) FROM information_schema.columns WHERE table_schema = "
            f"{marks[0]} AND table_name = {marks[1]} AND column_name IN ({', '.join(marks[2:])})"
        )
        with self._database.transaction() as connection:
            parameters = (schema, table.id.name, *columns)
            return connection.exec_driver_sql(text, parameters).scalar()
