"""The types of the column with edges: how databases declare it, its values, and these as texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

_LONG_MAX: Final = 2**63 - 1
_WIDEST: Final = Decimal("9999999999999999.9999")
_EPOCH: Final = datetime(1970, 1, 1)
_MS: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Edge:
    """A type: its name in SQL, its values at the edges, and one for each number."""

    name: str
    values: tuple[Any, ...]
    of: Callable[[int], Any]
    names: Mapping[str, str] | None = None
    """Names in databases that have another one."""

    def declared(self, database: str) -> str:
        return (self.names or {}).get(database, self.name)

    def value(self, number: int) -> Any:
        """Return the value of a row. The first row has none."""
        if number <= 1:
            return None
        return self.values[number - 2] if number - 2 < len(self.values) else self.of(number)


EDGES: Final[Mapping[str, Edge]] = {
    "whole": Edge("BIGINT", (0, _LONG_MAX, -_LONG_MAX - 1, -1), lambda number: number * 7),
    "decimal": Edge(
        "DECIMAL(20, 4)",
        (Decimal(0), _WIDEST, -_WIDEST, Decimal("0.0001")),
        lambda number: Decimal(number) / 8,
    ),
    "double": Edge(
        "DOUBLE PRECISION",
        (0.0, 1.7976931348623157e308, -2.2250738585072014e-308, 0.1),
        lambda number: number / 3,
    ),
    "bytes": Edge(
        "BLOB",
        (b"", b"\0", b"\xff\0\x80" * 1_000, b"null"),
        lambda number: number.to_bytes(4, "big"),
        {"postgresql": "BYTEA"},
    ),
    "date": Edge(
        "DATE",
        (date(1970, 1, 1), date(9999, 12, 31), date(1000, 1, 1), date(1969, 12, 31)),
        lambda number: date(2024, 1, 1) + timedelta(days=number),
    ),
    "time": Edge(
        "TIMESTAMP(3)",
        (_EPOCH, _EPOCH - _MS, datetime(9999, 12, 31, 23, 59, 59, 999_000), datetime(1000, 1, 1)),
        lambda number: datetime(2024, 1, 1) + number * 1_001 * _MS,
        {"mariadb": "DATETIME(3)"},
    ),
}


def text_of(value: Any) -> str:
    """Return a value as the model writes it, whatever a database or a file has made of it."""
    match value:
        case None:
            return "-"
        case bool():
            return str(int(value))
        case Decimal():
            return format(value.normalize() + 0, "f")
        case float():
            return repr(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        case date():
            return value.isoformat()
    return str(value)
