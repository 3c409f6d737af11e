"""The table or the file that a case reads, and what its sink has written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from tests.connect.pairs.chain import Chain
from tests.connect.pairs.columns import reads_files, writes_files
from tests.connect.pairs.edges import EDGES, text_of
from tests.connect.pairs.model import FIELDS, Case, Row, name_field
from tests.databases.target import TestDatabase

_PARQUET: Final = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.int64())])


class Origin:
    """What the source reads."""

    def __init__(self, chain: Chain, database: TestDatabase) -> None:
        self._chain = chain
        self._case = chain.case
        self._database = database
        self._has_more = False
        if reads_files(self._case):
            if self._case["source"] == "parquet":
                chain.origin.mkdir()
            return
        edge = EDGES[self._case["type"]].declared(database.kind)
        time = "DATETIME(6)" if database.kind == "mariadb" else "TIMESTAMP"
        database.run(
            f"CREATE TABLE item (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(4000), "
            f"amount {edge}, changed {time} NOT NULL)"
        )

    def change(self) -> None:
        """Add a column: rows have it from now on."""
        self._has_more = True
        if not reads_files(self._case):
            self._database.run("ALTER TABLE item ADD COLUMN more VARCHAR(100)")

    def insert(self, given: Sequence[Row]) -> None:
        """Add rows, all at once."""
        match self._case["source"]:
            case "lines" | "jsonl":
                texts = (json.dumps(self._object(each)) for each in given)
                with self._chain.origin.open("a", encoding="utf-8") as file:
                    file.write("".join(f"{each}\n" for each in texts))
            case "parquet":
                self._write_parquet(given)
            case _:
                self._database.insert("item", [self._fields(each) for each in given])

    def insert_one(self, connection: sa.Connection, row: Row) -> None:
        """Insert a row in a transaction that is open."""
        values = self._fields(row)
        marks = ", ".join(["%s"] * len(values))
        connection.exec_driver_sql(f"INSERT INTO item VALUES ({marks})", values)  # noqa: S608

    def _write_parquet(self, given: Sequence[Row]) -> None:
        table = pa.Table.from_pylist([self._object(each) for each in given], schema=_PARQUET)
        whole = self._chain.origin / f"{given[0].id}.parquet"
        draft = whole.with_suffix(".draft")
        pq.write_table(table, draft)
        draft.rename(whole)

    def _object(self, row: Row) -> dict[str, Any]:
        found = {"id": row.id, "name": row.name, "amount": row.amount}
        return found | ({"more": row.more} if self._has_more else {})

    def _fields(self, row: Row) -> tuple[Any, ...]:
        """Return a row as it is inserted now: a source by time knows no row of the past."""
        at = datetime.now(UTC) + timedelta(microseconds=10 * row.id)
        values = row.id, row.name, row.amount, at.strftime("%Y-%m-%d %H:%M:%S.%f")
        return (*values, row.more) if self._has_more else values


def found_rows(chain: Chain, database: TestDatabase) -> list[tuple[str, ...]]:
    """Return the FIELDS of all that the sink has, as texts."""
    if not writes_files(chain.case):
        return _of_table(chain.case, database)
    return [
        tuple(text_of(each.get(name)) for name in _names(chain.case)) for each in _of_files(chain)
    ]


def _names(case: Case) -> tuple[str, ...]:
    """Return what the FIELDS are called in the sink."""
    return tuple(name_field(case) or "name" if each == "name" else each for each in FIELDS)


def _of_table(case: Case, database: TestDatabase) -> list[tuple[str, ...]]:
    try:
        with database.session() as connection:
            columns = {each["name"] for each in sa.inspect(connection).get_columns("copies")}
        chosen = ", ".join(each if each in columns else "NULL" for each in _names(case))
        found = database.rows(f"SELECT {chosen} FROM copies")  # noqa: S608 - our own names
    except sa.exc.SQLAlchemyError:  # no table yet, or a server that starts
        return []
    return [tuple(map(text_of, each)) for each in found]


def _of_files(chain: Chain) -> Iterable[dict[str, Any]]:
    match chain.case["sink"]:
        case "lines" | "jsonl":
            yield from _lines(chain.end)
        case "rolls":
            for each in sorted(chain.end.rglob("*.jsonl")):
                yield from _lines(each)
        case "parquet":
            for each in sorted(chain.end.rglob("*.parquet")):
                yield from pq.ParquetFile(each).read().to_pylist()


def _lines(file: Path) -> Iterable[dict[str, Any]]:
    if file.exists():
        text = file.read_text(encoding="utf-8")
        yield from (json.loads(each) for each in text[: text.rfind("\n") + 1].split("\n")[:-1])
