"""Classifies a database's errors: try again, give up, or reject a record.

    TRANSIENT   the same work may succeed later: connection lost, deadlock, lock timeout, disk full.
    POISON      one of the records cannot be stored: out of range, not null, unique, wrong text.
    PERMANENT   a person has to act: missing table, wrong password, no rights, bad SQL.

Every driver has its own codes; only the tables in this module map them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from moldau.deferred import dataclass


class Meaning(Enum):
    """The class of an error, which decides what to do next."""

    TRANSIENT = "transient"
    POISON = "poison"
    PERMANENT = "permanent"


@dataclass(frozen=True, slots=True)
class DatabaseFailure:
    """A classified error: its meaning, its cause in one line, and a hint if there is one."""

    meaning: Meaning
    cause: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.cause} -> {self.hint}" if self.hint else self.cause


_T, _P, _X = Meaning.TRANSIENT, Meaning.POISON, Meaning.PERMANENT

_SQL = "correct query, or the names of tables and columns in the config"
_NO_COLUMN = "correct the column's name or add it; a sink adds it with auto.evolve=true"
_NO_TABLE = "correct the table's name or create it; a sink creates it with auto.create=true"

# By SQLSTATE: the longest matching prefix is used. 42804, 42846 and 42883 are about the type of a
# value (`true` for an integer column), P0001 is a trigger's RAISE, 44 a view's CHECK OPTION, 54000
# a value that is too long for an index.
_SQLSTATES: Mapping[str, tuple[Meaning, str]] = {
    "08": (_T, "is the database running and reachable from here?"),
    "22": (_P, ""),
    "23": (_P, ""),
    "25006": (_X, "this server is read-only: connect to the primary"),
    "25": (_T, ""),
    "28": (_X, "check connection.user and connection.password"),
    "3D": (_X, "create the database or correct connection.url"),
    "3F": (_X, "create the schema or correct the table's name"),
    "40": (_T, ""),
    "42501": (_X, "grant the connector's user the right to do this"),
    "42703": (_X, _NO_COLUMN),
    "42P01": (_X, _NO_TABLE),
    "42804": (_P, ""),
    "42846": (_P, ""),
    "42883": (_P, ""),
    "42P10": (_X, "pk.fields must name the columns of a primary key or unique index"),
    "42": (_X, _SQL),
    "44": (_P, ""),
    "53": (_T, "the server is out of memory, disk or connections"),
    "54000": (_P, ""),
    "55": (_T, ""),
    "57": (_T, "the server stopped or cancelled the statement"),
    "58": (_T, "the server reports a system error"),
    "P0001": (_P, ""),
    "XX": (_X, ""),
}
_MYSQL: Mapping[int, tuple[Meaning, str]] = {
    1040: (_T, "the server has too many connections"),
    1064: (_X, _SQL),
    1044: (_X, "grant the connector's user rights on this database"),
    1045: (_X, "check connection.user and connection.password"),
    1046: (_X, "name the database in connection.url"),
    1049: (_X, "create the database or correct connection.url"),
    1054: (_X, _NO_COLUMN),
    1142: (_X, "grant the connector's user the right to do this"),
    1146: (_X, _NO_TABLE),
    1227: (_X, "grant the connector's user this right"),
    1205: (_T, "a lock was not granted in time"),
    1213: (_T, "a deadlock was resolved against this connector"),
    **dict.fromkeys((1048, 1062, 1136, 1216, 1217, 1264, 1265, 1292, 1364, 1366), (_P, "")),
    **dict.fromkeys((1406, 1416, 1438, 1451, 1452, 1690, 3819, 4025, 1426), (_P, "")),
    **dict.fromkeys((1118, 1241, 1300, 1365, 1366, 1367, 1411, 1441, 1525, 1526), (_P, "")),
    **dict.fromkeys((1557, 1586, 1644, 1761, 1762, 3140, 4078, 4079), (_P, "")),
    **dict.fromkeys((1053, 1077, 1129, 1158, 1159, 1160, 1161, 1180, 1927), (_T, "")),
    **dict.fromkeys((2002, 2003, 2006, 2013, 2055), (_T, "is the database running and reachable?")),
}
_SQLITE: Mapping[int, tuple[Meaning, str]] = {
    3: (_X, "check the rights on the file"),
    5: (_T, "another process holds a lock on the file; busy_timeout=... in the URL waits longer"),
    6: (_T, "another connection holds a lock"),
    8: (_X, "the file is read-only"),
    10: (_T, "the disk reports an error"),
    11: (_X, "the file is damaged"),
    13: (_T, "the disk is full"),
    14: (_X, "check the path in connection.url: the folder must exist"),
    18: (_P, ""),
    19: (_P, ""),
    20: (_P, ""),
    25: (_P, ""),
    26: (_X, "the file is no SQLite database"),
}
_DUCKDB: Mapping[str, tuple[Meaning, str]] = {
    "ConstraintException": (_P, ""),
    "ConversionException": (_P, ""),
    "OutOfRangeException": (_P, ""),
    "InvalidInputException": (_P, ""),
    "TypeMismatchException": (_P, ""),
    "InvalidTypeException": (_P, ""),
    "NotImplementedException": (_P, ""),
    "TransactionException": (_T, ""),
    "SerializationException": (_T, ""),
    "IOException": (
        _T,
        "if another process holds the file: DuckDB lets one process write, or several read",
    ),
    "OutOfMemoryException": (_T, "DuckDB is out of memory"),
    "CatalogException": (_X, _SQL),
    "BinderException": (_X, _SQL),
    "ParserException": (_X, _SQL),
    "PermissionException": (_X, ""),
}
# PostgreSQL has the code of a missing right (42501) for a row that a policy does not allow.
_RLS = "violates row-level security policy"
# Errors that drivers report without a code, mostly while connecting.
_WORDS: tuple[tuple[str, Meaning, str], ...] = (
    ("password authentication failed", _X, "check connection.user and connection.password"),
    ("no password supplied", _X, "set connection.password"),
    ("role .* does not exist", _X, "check connection.user"),
    ("database .* does not exist", _X, "create the database or correct connection.url"),
    ("no pg_hba.conf entry", _X, "allow this host in the server's pg_hba.conf"),
    ("login failed", _X, "check connection.user and connection.password"),
    ("ORA-01017", _X, "check connection.user and connection.password"),
    ("ORA-00942", _X, _NO_TABLE),
    ("ORA-0(0001|1400|1438|1722|2290|2291|12899)", _P, ""),
    ("ORA-0(0060|3113|3114|3135)|ORA-125", _T, ""),
    (
        "could not translate host name|name or service not known|failed to resolve",
        _T,
        "check the host's name in connection.url",
    ),
    ("connection refused|is the server running", _T, "is the database running at that address?"),
    ("timeout|timed out", _T, "the server did not answer in time"),
    ("binding parameter|is not supported|(cannot|can't) adapt|cannot be adapted", _P, ""),
    ("can ?not be used (with|as)|malformed JSON|(un|im)able to transform", _P, ""),
    (_RLS, _P, ""),
    ("no such table", _X, _NO_TABLE),
    ("no such column|has no column named", _X, _NO_COLUMN),
    (
        "(date|timestamp) too (large|small)",
        _P,
        "years reach from 1 to 9999 here, without infinity: replace such values, in a view or in "
        "query=SELECT NULLIF(column, 'infinity') ...",
    ),
    ("syntax error", _X, _SQL),
)


def understand(error: BaseException) -> DatabaseFailure:
    """Classify an error of SQLAlchemy or of a driver."""
    original = _driver_error(error)
    cause = one_line(original)
    found = _by_code(original)
    if found is None:
        found = _by_words(cause) or _by_class(original)
    return DatabaseFailure(found[0], cause, found[1])


def one_line(error: BaseException) -> str:
    """Return an error's first line of text, without the SQL and parameters that SQLAlchemy adds."""
    text = str(error).strip()
    if type(error).__module__.startswith("pymysql") and len(error.args) > 1:
        text = f"{error.args[1]} ({error.args[0]})"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    detail = next((line for line in lines[1:] if line.startswith("DETAIL:")), "")
    return f"{lines[0]} ({detail.removeprefix('DETAIL:').strip()})" if detail else lines[0]


def _driver_error(error: BaseException) -> BaseException:
    original = getattr(error, "orig", None)
    return original if isinstance(original, BaseException) else error


def _by_code(error: BaseException) -> tuple[Meaning, str] | None:
    """Classify by the driver's own code, which says more than an SQLSTATE such as HY000."""
    module = type(error).__module__
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return _SQLITE.get(code & 0xFF)
    if "duckdb" in module:
        return _DUCKDB.get(type(error).__name__)
    if module.startswith("pymysql") and error.args and error.args[0] in _MYSQL:
        return _MYSQL[error.args[0]]
    sqlstate = getattr(error, "sqlstate", None)
    if not sqlstate or _RLS in str(error):
        return None
    return next((_SQLSTATES[sqlstate[:n]] for n in (5, 2) if sqlstate[:n] in _SQLSTATES), (_X, ""))


def _by_words(cause: str) -> tuple[Meaning, str] | None:
    for pattern, meaning, hint in _WORDS:
        if re.search(pattern, cause, re.IGNORECASE):
            return meaning, hint
    return None


def _by_class(error: BaseException) -> tuple[Meaning, str]:
    """Classify by DB-API's class names and by Python's errors about values, as a last resort."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if names & {"DataError", "IntegrityError", "ValueError", "TypeError", "OverflowError"}:
        return Meaning.POISON, ""
    if names & {"OperationalError", "InterfaceError", "OSError"}:
        return Meaning.TRANSIENT, ""
    if isinstance(error, ArithmeticError):
        return Meaning.POISON, ""
    return Meaning.PERMANENT, ""
