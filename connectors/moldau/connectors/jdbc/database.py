"""A database connection that reconnects: connect with retries, stream rows, run transactions.

One task owns one `Database` and one connection. Every error of the driver is raised as
RetriableError (try again), ConnectError (a person has to act) or `PoisonError` (a record is bad),
with its cause in one line and a hint. No message contains a password.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool

from moldau.connect.errors import ConnectError, RetriableError
from moldau.connectors.jdbc.address import Address
from moldau.connectors.jdbc.dialects import Dialect
from moldau.connectors.jdbc.failures import DatabaseFailure, Meaning, understand
from moldau.connectors.jdbc.postgresql_catalog import load_as_text
from moldau.connectors.pace import Pace
from moldau.errors import without_frames
from moldau.plugins.extras import install_command
from moldau.runtime.children import Mailbox, start_thread
from moldau.runtime.real_files import RealFiles

# Errors that any driver may raise beside its own; any other error is our bug.
_ERRORS: tuple[type[Exception], ...] = (
    sa.exc.SQLAlchemyError,
    OSError,
    OverflowError,
    UnicodeError,
)

# PostgreSQL's types whose values psycopg returns the same in text and in binary: boolean, bytea,
# whole numbers, text, double precision, numeric, date, time and timestamps.
_BINARY_TYPES = frozenset({16, 17, 20, 21, 23, 25, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1700})

_EXTRAS: Final = {
    "psycopg": "postgres",
    "pymysql": "mysql",
    "duckdb": "duckdb",
    "duckdb_engine": "duckdb",
}
"""The extras that bring drivers."""

_NO_OTHER_FILE: Final = {"enable_external_access": "false"}
"""DuckDB's setting, which no statement can change later."""
CONNECT_S: Final = 30
"""How long a connection may take, until it has answered."""
_CONNECT_TIMEOUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "postgresql": ("connect_timeout",),
    "mysql": ("connect_timeout", "read_timeout"),
}
_OPEN_OTHERWISE: Final = "with a different configuration than existing connections"
_CANCEL_AGAIN_S: Final = 1.0
_DATED: Final = frozenset((1082, 1114, 1184))
"""PostgreSQL's OIDs of the types date, timestamp and timestamptz."""


def _without_attach(action: int, *_: object) -> int:
    """Let SQLite run all statements but those that open another file."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def _install_driver(name: str) -> str:
    """Return the command that installs a driver."""
    extra = _EXTRAS.get(name)
    return install_command(extra) if extra is not None else f"pip install {name}"


class PoisonError(Exception):
    """The database rejects a value: one of the written records is bad."""

    def __init__(self, failure: DatabaseFailure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Database:
    """One connection, opened at the first use and again after it was lost.

    Set `isolation` and `session` (statements for each new connection) before the first use.
    """

    def __init__(
        self, address: Address, dialect: Dialect, pace: Pace, *, attempts: int, backoff_ms: int
    ) -> None:
        self.dialect = dialect
        self._address = address
        self._pace = pace
        self._attempts = attempts
        self._backoff_ms = backoff_ms
        self._engine: Engine | None = None
        self._connection: Connection | None = None
        self._cursors = 0
        self.report_waiting: Callable[[str | None], None] = _report_nothing
        """Called with what a connection waits for, and with None when there is one."""
        self.isolation: str | None = None
        self.session: tuple[str, ...] = ()
        self.errors = _ERRORS

    @property
    def address(self) -> Address:
        return self._address

    def connection(self) -> Connection:
        """Return the open connection. If there is none, connect, with retries."""
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection

    @property
    def driver(self) -> Any:
        """The driver's own connection, for COPY and server-side cursors."""
        return self.connection().connection.dbapi_connection

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Run a block in one transaction. An error is classified and rolls the transaction back."""
        connection = self.connection()
        try:
            if connection.in_transaction():
                connection.rollback()
            with connection.begin():
                yield connection
        except self.errors as error:
            raise self._understood(error) from error

    def stream(self, statement: str, parameters: Sequence[Any]) -> ResultRows:
        """Run a query. Its rows stay on the server until they are fetched."""
        driver = self.driver
        name = self.dialect.name
        cursor = None
        try:
            if name == "postgresql":
                cursor = self._named_cursor(driver)
                cursor.execute(statement, tuple(parameters))
                if {column.type_code for column in cursor.description} <= _BINARY_TYPES:
                    # No row was computed yet. Use binary, which is cheaper on both sides.
                    cursor.close()
                    cursor = self._named_cursor(driver)
                    cursor.execute(statement, tuple(parameters), binary=True)
                return ResultRows(self, cursor, is_ahead=True)
            if name == "mysql":
                from pymysql.cursors import SSCursor

                cursor = driver.cursor(SSCursor)
            else:
                cursor = driver.cursor()
            cursor.execute(statement, tuple(parameters))
        except self.errors as error:
            raise self.lost(error, cursor) from error
        return ResultRows(self, cursor)

    def _named_cursor(self, driver: Any) -> Any:
        """Return a server-side cursor, whose rows stay on the server."""
        self._cursors += 1
        return driver.cursor(name=f"moldau_{self._cursors}")

    def end_stream(self, cursor: Any) -> None:
        """Close a cursor and the read transaction that it needed."""
        try:
            cursor.close()
            if self._connection is not None:
                self.driver.rollback()
        except self.errors:
            self.close()
            _release(cursor, self.errors)

    def cancel(self) -> None:
        """End the statement that another thread runs, if it still runs."""
        with suppress(*self.errors):
            self.driver.cancel()

    def scalar(self, statement: str) -> Any:
        """Return the only value of a query's only row."""
        with self.transaction() as connection:
            return connection.exec_driver_sql(statement).scalar()

    def release(self) -> None:
        """Close a connection that locks the whole database, so that others can write meanwhile."""
        if self._address.is_locked_whole:
            self.close()

    def close(self) -> None:
        """Close the connection; the next use opens a new one."""
        connection, self._connection = self._connection, None
        engine, self._engine = self._engine, None
        if connection is not None:
            with suppress(*self.errors):
                connection.invalidate()
                connection.close()
        if engine is not None:
            engine.dispose()

    def _connect(self) -> Connection:
        attempt = 0
        file = self._address.file
        if self._address.reads and file is not None and not RealFiles().exists(file):
            # The driver would create an empty database.
            raise ConnectError(
                f"cannot connect to {self._address}: there is no file {file} -> correct "
                "connection.url, or create the database"
            )
        while True:
            attempt += 1
            engine = self._engine = self._engine or self._make_engine()
            try:
                connection = engine.connect()
                if attempt > 1:
                    self.report_waiting(None)
                return connection
            except self.errors as error:
                is_for_reading = "read_only" in self._address.arguments and self._address.reads
                if is_for_reading and _OPEN_OTHERWISE in str(error):
                    # DuckDB: this process also writes the file, and can open it in one mode only.
                    self.close()
                    self._address = self._address.for_writing()
                    continue
                failure = understand(without_frames(error))
                if failure.meaning is not Meaning.TRANSIENT:
                    raise ConnectError(f"cannot connect to {self._address}: {failure}") from error
                is_last = attempt >= self._attempts
                self.report_waiting(f"cannot connect to {self._address}: {failure}")
                if is_last or self._pace.wait(self._backoff_ms / 1000):
                    raise RetriableError(
                        f"cannot connect to {self._address} after {attempt} attempts: {failure}"
                    ) from error

    def _make_engine(self) -> Engine:
        options: dict[str, Any] = {"poolclass": NullPool}
        if self._address.url.database == ":memory:":
            options = {}
        if self.isolation is not None:
            options["isolation_level"] = self.isolation
        try:
            engine = sa.create_engine(self._address.url, connect_args=self._arguments(), **options)
        except ModuleNotFoundError as error:
            hint = _install_driver(str(error.name))
            raise ConnectError(f"the driver {error.name} is not installed -> {hint}") from error
        except sa.exc.NoSuchModuleError as error:
            is_known = self.dialect.name in _EXTRAS
            hint = _install_driver(self.dialect.name) if is_known else "see docs/jdbc.md"
            raise ConnectError(
                f"no driver for {self._address.dialect} is installed -> {hint}"
            ) from error
        except (sa.exc.ArgumentError, TypeError, ValueError) as error:
            raise ConnectError(f"connection.url cannot be used: {error}") from error
        sa.event.listen(engine, "connect", self._on_connect)
        self.errors = (*_ERRORS, engine.dialect.loaded_dbapi.Error)
        return engine

    def _arguments(self) -> dict[str, Any]:
        """Return the driver's arguments. A server that accepts and never answers is given up, and
        statements of a config reach no file beside the database."""
        timeouts = {
            name: CONNECT_S
            for name in _CONNECT_TIMEOUTS.get(self.dialect.name, ())
            if name not in self._address.url.query
        }
        arguments = {**timeouts, **self._address.arguments}
        if self._address.dialect == "duckdb":
            arguments["config"] = {**arguments.get("config", {}), **_NO_OTHER_FILE}
        return arguments

    def _on_connect(self, driver: Any, _: Any) -> None:
        if self._address.dialect == "sqlite":
            driver.set_authorizer(_without_attach)
        if self.dialect.name == "postgresql":
            load_as_text(driver)
        if self.dialect.name == "mysql" and "read_timeout" not in self._address.url.query:
            # The default is for connecting only: a query may take its time.
            driver._read_timeout = self._address.arguments.get("read_timeout")
        for statement in (*self._address.on_connect, *self.session):
            cursor = driver.cursor()
            cursor.execute(statement)
            cursor.close()
        if self.session:
            driver.commit()

    def _understood(self, error: BaseException) -> Exception:
        failure = understand(error)
        if failure.meaning is Meaning.TRANSIENT:
            self.close()
            return RetriableError(f"{self._address}: {failure}")
        if failure.meaning is Meaning.POISON:
            return PoisonError(failure)
        return ConnectError(f"{self._address}: {failure}")

    def lost(self, error: BaseException, cursor: Any, description: Any = None) -> Exception:
        """Return the error of a failed read. The connection is closed, whatever the error was."""
        understood = self._understood(error)
        self.close()
        _release(cursor, self.errors)
        if isinstance(understood, PoisonError):
            dated = _dated(description)
            where = f" (columns with dates: {', '.join(dated)})" if dated else ""
            return ConnectError(f"{self._address}: {understood}{where}")
        return understood


def _report_nothing(cause: str | None) -> None:
    return


def _dated(description: Any) -> list[str]:
    """Return the columns of a PostgreSQL result with dates or timestamps."""
    return [column[0] for column in description or () if column[1] in _DATED]


def _described(backend: str, cursor: Any) -> Any:
    """Return the description of a result. MySQL's ends with each column's flags and charset."""
    if backend != "mysql":
        return cursor.description
    fields = cursor._result.fields
    return [
        (*column, field.flags, field.charsetnr)
        for column, field in zip(cursor.description, fields, strict=True)
    ]


def _release(cursor: Any, errors: tuple[type[Exception], ...]) -> None:
    """Close a cursor whose connection is lost."""
    if cursor is not None:
        with suppress(*errors):
            cursor.close()


class ResultRows:
    """The result of a running query. While a batch is used, a thread fetches the next one from a
    server that works meanwhile (PostgreSQL): only the thread uses the connection then."""

    def __init__(self, database: Database, cursor: Any, *, is_ahead: bool = False) -> None:
        self._database = database
        self._cursor = cursor
        self._is_ahead = is_ahead
        self._is_closed = False
        self._next: Mailbox[list[Any] | BaseException] | None = None
        self.description: Any = _described(database.dialect.name, cursor)

    @property
    def names(self) -> list[str]:
        return [column[0] for column in self.description]

    def fetch(self, count: int) -> list[Any]:
        """Return the next rows, at most `count`; fewer only at the end. It is the same number in
        each call."""
        found = self._read(count) if self._next is None else self._next.take(None)
        self._next = None
        assert found is not None  # `take` waits without limit
        if isinstance(found, self._database.errors):
            self._is_closed = True
            raise self._database.lost(found, self._cursor, self.description) from found
        if isinstance(found, BaseException):
            raise found
        if self._is_ahead and len(found) == count:
            ahead: Mailbox[list[Any] | BaseException] = Mailbox()
            start_thread(partial(self._read_into, ahead, count), "rows ahead")
            self._next = ahead
        return found

    def _read(self, count: int) -> list[Any] | BaseException:
        try:
            return list(self._cursor.fetchmany(count))
        except self._database.errors as error:
            return without_frames(error)

    def _read_into(self, mailbox: Mailbox[list[Any] | BaseException], count: int) -> None:
        def hand_over(_: object, error: BaseException | None, __: object) -> bool:
            if error is not None:
                mailbox.put(without_frames(error))  # `fetch` raises it: these rows are not skipped
            return True

        with ExitStack() as stack:
            stack.push(hand_over)
            mailbox.put(self._read(count))

    def close(self) -> None:
        """End the query. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._next is not None:
            self._end_fetch(self._next)
            self._next = None
        self._database.end_stream(self._cursor)

    def _end_fetch(self, mailbox: Mailbox[list[Any] | BaseException]) -> None:
        """End the fetch of rows that are not wanted. A server ignores a request to cancel that
        comes before the fetch itself, so it is asked until the fetch has ended."""
        self._database.cancel()
        while mailbox.take(_CANCEL_AGAIN_S) is None:
            self._database.cancel()
