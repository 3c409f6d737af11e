"""Rows of every kind of source, on a real Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from moldau.connectors.spark.failures import raise_readable
from moldau.connectors.spark.query import StreamingQueries
from moldau.connectors.spark.records import RecordLayout
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.connectors.spark.source_rows import SourceRows
from moldau.errors import ConfigError
from tests.connect.processes import wait_until

pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.real

TABLE = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


def source_rows(session: Any, folder: Path, **more: str) -> SourceRows:
    base = {"topic": "t", "checkpoint.location": str(folder)}
    return SourceRows(session, SparkSourceConfig.of({**base, **more}), str(folder / "spool"))


def ids(rows: Any) -> list[int]:
    return sorted(row.id for row in rows.collect())


def test_each_kind_of_table_is_read_whole(spark: Any, tmp_path: Path) -> None:
    import deltalake
    import pyarrow.parquet as pq

    pq.write_table(TABLE, tmp_path / "rows.parquet")
    deltalake.write_deltalake(str(tmp_path / "delta"), TABLE)
    spark.createDataFrame(TABLE).createOrReplaceTempView("names")
    url = f"sqlite:///{tmp_path}/names.db"
    _fill(url)
    given: list[dict[str, str]] = [
        {"source.format": "parquet", "source.path": str(tmp_path / "rows.parquet")},
        {"source.format": "delta", "source.path": str(tmp_path / "delta")},
        {"source.format": "table", "source.table": "names"},
        {"query": "SELECT id, upper(name) AS name FROM names"},
        {"source.format": "jdbc", "source.table": "names", "jdbc.url": f"jdbc:{url}"},
    ]

    assert [ids(source_rows(spark, tmp_path, **each).all_rows()) for each in given] == [
        [1, 2, 3]
    ] * len(given)


def test_an_iceberg_table_is_read_whole(spark: Any, tmp_path: Path) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog", reason="pyiceberg is not installed")
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db",
                  "warehouse": f"file://{tmp_path}/w"}  # fmt: skip
    catalog = catalogs.load_catalog("moldau", **properties)
    catalog.create_namespace("shop")
    catalog.create_table("shop.names", schema=TABLE.schema).append(TABLE)
    catalog.close()
    more = {f"source.option.{name}": text for name, text in properties.items()}
    given = {"source.format": "iceberg", "source.table": "shop.names", **more}

    assert ids(source_rows(spark, tmp_path, **given).all_rows()) == [1, 2, 3]
    with pytest.raises(ConfigError, match="there is no such table: check"):
        source_rows(spark, tmp_path, **{**given, "source.table": "shop.other"}).all_rows()


def _fill(url: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE names (id BIGINT, name TEXT, at TIMESTAMP)")
        for row in TABLE.to_pylist():
            connection.exec_driver_sql(
                "INSERT INTO names VALUES (?, ?, ?)",
                (row["id"], row["name"], f"2026-11-2{row['id']} 10:00:00.000000"),
            )


@pytest.mark.parametrize(
    ("column", "offsets"),
    [("id", ["3", "4"]), ("at", ["2026-11-23T10:00:00", "2026-11-24T10:00:00"])],
)
def test_a_database_gives_what_is_above_the_offset(
    spark: Any, tmp_path: Path, column: str, offsets: list[str]
) -> None:
    url = f"sqlite:///{tmp_path}/names.db"
    _fill(url)
    given = {"source.format": "jdbc", "source.table": "names", "jdbc.url": f"jdbc:{url}",
             "mode": "incremental", "incremental.column": column}  # fmt: skip
    source = source_rows(spark, tmp_path, **given)

    first = source.rows_above(None)
    assert first is not None
    assert (ids(first.rows), first.highest) == ([1, 2, 3], offsets[0])
    assert source.rows_above(first.highest) is None

    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO names VALUES (4, 'd', '2026-11-24 10:00:00.000000')"
        )
    then = source.rows_above(first.highest)
    assert then is not None
    assert (ids(then.rows), then.highest) == ([4], offsets[1])
    with pytest.raises(ConfigError, match="lacks the column of incremental"):
        source_rows(spark, tmp_path, **{**given, "incremental.column": "no"}).rows_above(None)


@pytest.mark.parametrize("kind", ["jdbc", "table"])
def test_a_read_has_a_limit_and_all_rows_of_its_last_value(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    url = f"sqlite:///{tmp_path}/many.db"
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE names (id BIGINT, turn BIGINT)")
        for number in range(10):
            connection.exec_driver_sql("INSERT INTO names VALUES (?, ?)", (number, number // 2))
    spark.range(10).selectExpr("id", "id DIV 2 AS turn").createOrReplaceTempView("names")
    given = {"source.format": kind, "source.table": "names", "jdbc.url": f"jdbc:{url}",
             "mode": "incremental", "incremental.column": "turn",
             "max.rows.per.batch": "3"}  # fmt: skip
    if kind == "table":
        del given["jdbc.url"]
    source = source_rows(spark, tmp_path, **given)

    found, offset = [], None
    while (new := source.rows_above(offset)) is not None:
        found.append((ids(new.rows), new.has_more))
        offset = new.highest

    assert found == [([0, 1, 2, 3], True), ([4, 5, 6, 7], True), ([8, 9], False)]
    source.close()


def test_rows_above_an_offset_are_transformed(spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame(TABLE).createOrReplaceTempView("names")
    given = {"source.format": "table", "source.table": "names", "mode": "incremental",
             "incremental.column": "id",
             "transforms.sql": "SELECT id * 10 AS id FROM source"}  # fmt: skip

    found = source_rows(spark, tmp_path, **given).rows_above("1")

    assert found is not None
    assert (ids(found.rows), found.highest) == ([20, 30], "3")
    with pytest.raises(ConfigError, match="lacks the column"):
        source_rows(spark, tmp_path, **{**given, "incremental.column": "no"}).rows_above(None)


def test_columns_become_keys_headers_and_timestamps(spark: Any) -> None:
    rows = spark.sql(
        "SELECT 1 AS id, 'de' AS country, TIMESTAMP '2026-11-23T10:00:00Z' AS at, 'x' AS text"
    )

    layout = RecordLayout(
        key_columns=["id", "country"], timestamp_column="at", header_columns=["country"]
    )
    found = layout.to_records(rows).first()
    assert json.loads(found.value)["text"] == "x"
    assert json.loads(found.key) == {"id": 1, "country": "de"}
    assert [(each.key, bytes(each.value)) for each in found.headers] == [("country", b"de")]
    assert found.timestamp.astimezone(UTC) == datetime(2026, 11, 23, 10, tzinfo=UTC)

    one = (
        RecordLayout("string", key_columns=["id", "country"], timestamp_column="at")
        .to_records(rows)
        .first()
    )
    assert one.value == "x"
    with pytest.raises(ConfigError, match="needs one column beside"):
        RecordLayout("string").to_records(rows)
    with pytest.raises(ConfigError, match="the rows lack columns"):
        RecordLayout(key_columns=["no"]).to_records(rows)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets few rows be many."""
    monkeypatch.setattr("moldau.connectors.spark.spool._MEMORY_BYTES", 100_000)
    monkeypatch.setattr("moldau.connectors.spark.spool._FILE_BYTES", 200_000)


ROWS = 60_000


@pytest.fixture
def many(tmp_path: Path) -> dict[str, str]:
    """The settings of a source with many rows in a database."""
    url = f"sqlite:///{tmp_path}/many.db"
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        for name in ("many", "few"):
            connection.exec_driver_sql(
                f"CREATE TABLE {name} (id BIGINT, name TEXT, at TIMESTAMP, day DATE, "
                "price NUMERIC(10, 2), ratio DOUBLE, data BLOB, is_new BOOLEAN)"
            )
        at, row = "2026-11-23 10:00:00.000000", (3.5, 0.25, b"x", True)
        rows = [(each, f"n{each}", at, "2026-11-23", *row) for each in range(ROWS)]
        connection.exec_driver_sql("INSERT INTO many VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.exec_driver_sql("INSERT INTO few SELECT * FROM many WHERE id < 3")
    return {"source.format": "jdbc", "source.table": "many", "jdbc.url": f"jdbc:{url}"}


def test_many_rows_of_a_database_go_through_files(
    spark: Any, tmp_path: Path, many: dict[str, str], small_pieces: None
) -> None:
    spool = tmp_path / "spool"
    (spool / "left").mkdir(parents=True)  # by a crash
    source = source_rows(spark, tmp_path, **many)

    rows = source.all_rows()

    files = list(spool.iterdir())
    assert len(files) > 5
    assert max(each.stat().st_size for each in files) < 1_000_000
    assert ids(rows.select("id")) == list(range(ROWS))
    found, kinds = rows.limit(3).collect(), rows.dtypes
    source.close()
    assert not spool.exists()

    few = source_rows(spark, tmp_path, **{**many, "source.table": "few"}).all_rows()
    assert not spool.exists()
    assert (few.collect(), few.dtypes) == (found, kinds)


def test_rows_above_an_offset_go_through_files_too(
    spark: Any, tmp_path: Path, many: dict[str, str], small_pieces: None
) -> None:
    more = {"mode": "incremental", "incremental.column": "id", "max.rows.per.batch": "1000000",
            "transforms.sql": "SELECT count(*) AS id FROM source"}  # fmt: skip
    source = source_rows(spark, tmp_path, **many, **more)

    new = source.rows_above("9999")

    assert new is not None
    assert (ids(new.rows), new.highest) == ([ROWS - 10_000], str(ROWS - 1))
    source.close()


def test_rows_are_held_where_no_file_can_be_kept(
    spark: Any,
    tmp_path: Path,
    many: dict[str, str],
    small_pieces: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "spool").touch()
    source = source_rows(spark, tmp_path, **many)

    assert source.all_rows().count() == ROWS

    source.close()
    assert caplog.text.count("a batch is held in memory") == 1


BROKEN = {"json": '{"id": 1}\n{"id": "one"}\n{"id": 2}\nno json\n', "csv": "1\none\n2\n"}


@pytest.fixture(params=["json", "csv"])
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The settings of a source of files with a row that does not fit."""
    incoming = tmp_path / "in"
    incoming.mkdir()
    (incoming / f"b.{request.param}").write_text(BROKEN[request.param])
    return {
        "source.format": request.param,
        "source.path": str(incoming),
        "source.schema": "id BIGINT",
    }


MALFORMED = r"a row of the source cannot be parsed.*errors\.tolerance=all.*in/b\."


def read_bulk(source: SourceRows) -> list[int]:
    try:
        return ids(source.all_rows())
    except Exception as error:
        raise_readable(error)


def read_stream(source: SourceRows) -> list[int]:
    told: list[dict[str, Any]] = []
    queries = StreamingQueries(told.append)
    writer = source.stream().writeStream.format("memory").queryName("read_stream")
    query = writer.trigger(availableNow=True).start()
    queries.watch(query)

    def is_finished() -> bool:
        queries.poll()
        return any(each["type"] == "finished" for each in told)

    try:
        wait_until(is_finished, "the end of the files", 120)
        return ids(source.stream().sparkSession.table("read_stream"))
    finally:
        queries.stop()


@pytest.mark.parametrize("read", [read_bulk, read_stream])
def test_a_row_that_does_not_fit_fails_the_read_and_is_left_out_if_errors_are_tolerated(
    spark: Any, tmp_path: Path, broken: dict[str, str], read: Any, caplog: pytest.LogCaptureFixture
) -> None:
    mode = {"mode": "stream"} if read is read_stream else {}
    with pytest.raises(ConfigError, match=MALFORMED) as told:
        read(source_rows(spark, tmp_path, **broken, **mode))
    assert len(str(told.value).splitlines()) == 1

    tolerant = source_rows(spark, tmp_path, **broken, **mode, **{"errors.tolerance": "all"})
    assert read(tolerant) == [1, 2]
    assert "that cannot be parsed are left out" in caplog.text


def test_a_mode_of_the_user_is_kept(spark: Any, tmp_path: Path, broken: dict[str, str]) -> None:
    source = source_rows(spark, tmp_path, **broken, **{"source.option.mode": "PERMISSIVE"})

    assert [row.id for row in source.all_rows().collect()].count(None) > 0


def test_columns_are_not_inferred_from_json_that_is_none(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(BROKEN["json"])
    given = {"source.format": "json", "source.path": str(tmp_path / "b.json")}

    with pytest.raises(ConfigError, match="a row of the source cannot be parsed"):
        read_bulk(source_rows(spark, tmp_path, **given))
