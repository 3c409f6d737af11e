"""Every type of every database goes from a table over JSON with schemas into a table of the same
types, and no value is another afterwards; what cannot be carried is an error."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.exc import NotSupportedError

from moldau.connect.api import ConnectError, Schema, SinkRecord, SourceRecord, Struct
from moldau.connect.converters.json import JsonConverter
from moldau.connect.data import INT64, OPTIONAL_STRING, STRING
from moldau.connectors.jdbc.source import JdbcSourceConnector
from tests.connectors.contexts import Reporter, SinkContext
from tests.connectors.jdbc.tasks import drained, sink_task, source_task
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

Types = list[tuple[str, list[str]]]

POSTGRESQL: Types = [
    ("smallint", ["-32768", "32767"]),
    ("integer", ["-2147483648", "2147483647"]),
    ("bigint", ["-9223372036854775808", "9223372036854775807"]),
    ("real", ["1.1", "16777217", "-3.4e38"]),
    ("double precision", ["0.1", "1e300", "'-infinity'"]),
    ("numeric", ["1.5", "123456789012345678901234567890.0000000001"]),
    ("numeric(10,2)", ["12345678.91"]),
    ("numeric(5,0)", ["12345"]),
    ("numeric(3,-2)", ["12300"]),
    ("money", ["12.34"]),
    ("boolean", ["true", "false"]),
    ("char(5)", ["'ab'"]),
    ("varchar(9)", ["'ab'", "''"]),
    ("text", ["E'tab\\tline\\n\\\\ \\u20ac'"]),
    ('"char"', ["'x'"]),
    ("name", ["'a_name'"]),
    ("bytea", ["'\\x00ff'", "''"]),
    ("date", ["'2024-02-29'", "'0001-01-01'"]),
    ("time", ["'23:59:59.123'"]),
    ("timetz", ["'12:00:00+02'", "'12:00:00.5-03:30'"]),
    ("timestamp", ["'2024-05-01 12:30:00.25'", "'1700-01-01'"]),
    ("timestamptz", ["'2024-05-01 12:30:00.25+02'"]),
    ("interval", ["'1 mon'", "'1 year -2 days 03:04:05.678901'"]),
    ("bit(8)", ["B'00000101'"]),
    ("bit(1)", ["B'1'", "B'0'"]),
    ("varbit", ["B'101'", "B''"]),
    ("uuid", ["'11111111-2222-3333-4444-555555555555'"]),
    ("json", ["'{\"a\": [1, null]}'", "'7'"]),
    ("jsonb", ["'{\"a\": [1, null]}'", "'\"x\"'"]),
    ("xml", ["'<a>1</a>'"]),
    ("inet", ["'10.0.0.1/8'", "'::1'"]),
    ("cidr", ["'10.0.0.0/8'"]),
    ("macaddr", ["'08:00:2b:01:02:03'"]),
    ("macaddr8", ["'08:00:2b:01:02:03:04:05'"]),
    ("point", ["'(1,2)'"]),
    ("line", ["'{1,2,3}'"]),
    ("lseg", ["'[(1,2),(3,4)]'"]),
    ("box", ["'(3,4),(1,2)'"]),
    ("path", ["'[(1,2),(3,4)]'"]),
    ("polygon", ["'((1,2),(3,4))'"]),
    ("circle", ["'<(1,2),3>'"]),
    ("tsvector", ["'a:1 b:2'"]),
    ("tsquery", ["'a & b'"]),
    ("oid", ["4294967295"]),
    ("xid", ["'7'"]),
    ("xid8", ["'7'"]),
    ("cid", ["'7'"]),
    ("tid", ["'(1,2)'"]),
    ("regclass", ["'pg_class'"]),
    ("regtype", ["'integer'"]),
    ("pg_lsn", ["'16/B374D848'"]),
    ("pg_snapshot", ["'10:20:10,14'"]),
    ("jsonpath", ["'$.a'"]),
    ("int2vector", ["'1 2'"]),
    ("oidvector", ["'1 2'"]),
    ("int4range", ["'[1,5)'", "'empty'"]),
    ("int8range", ["'[1,)'"]),
    ("numrange", ["'(1.5,2.5]'"]),
    ("daterange", ["'[2024-01-01,2024-02-01)'"]),
    ("tsrange", ["'[\"2024-01-01 00:00:00\",)'"]),
    ("tstzrange", ["'[\"2024-01-01 00:00:00+02\",)'"]),
    ("int4multirange", ["'{[1,5),[7,9)}'"]),
    ("nummultirange", ["'{[1,5)}'"]),
    ("tstzmultirange", ["'{}'"]),
    ("mood", ["'sad'"]),
    ("pair", ["ROW(1, 'a b')::pair"]),
    ("positive", ["7"]),
    ("small_positive", ["7"]),
    ("tags", ["ARRAY['a', NULL]"]),
    ("int[]", ["ARRAY[1, NULL, 3]", "'{}'"]),
    ("int[][]", ["ARRAY[[1, 2], [3, NULL]]"]),
    ("text[]", ["ARRAY['a,b', '\"', NULL]"]),
    ("boolean[]", ["ARRAY[true, false]"]),
    ("bytea[]", ["ARRAY['\\x00'::bytea]"]),
    ("numeric(6,2)[]", ["ARRAY[1.50]"]),
    ("double precision[]", ["ARRAY[0.1]"]),
    ("date[]", ["ARRAY['2024-01-01'::date]"]),
    ("timestamp[]", ["ARRAY['2024-01-01 01:00'::timestamp]"]),
    ("timestamptz[]", ["ARRAY['2024-01-01 01:00+02'::timestamptz]"]),
    ("uuid[]", ["ARRAY['11111111-2222-3333-4444-555555555555'::uuid]"]),
    ("interval[]", ["ARRAY['1 mon'::interval]"]),
    ("timetz[]", ["ARRAY['12:00+02'::timetz]"]),
    ("varbit[]", ["ARRAY[B'101'::varbit]"]),
    ("jsonb[]", ["ARRAY['{\"a\": 1}'::jsonb]"]),
    ("inet[]", ["ARRAY['10.0.0.1'::inet]"]),
    ("box[]", ["ARRAY['(3,4),(1,2)'::box]"]),
    ("mood[]", ["ARRAY['sad', 'ok']::mood[]"]),
    ("pair[]", ["ARRAY[ROW(1, 'a')::pair]"]),
    ("positive[]", ["ARRAY[7]::positive[]"]),
]
POSTGRESQL_SETUP = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TYPE pair AS (n int, t text)",
    "CREATE DOMAIN positive AS int CHECK (value > 0)",
    "CREATE DOMAIN small_positive AS positive CHECK (value < 9)",
    "CREATE DOMAIN tags AS text[]",
)
MARIADB: Types = [
    ("tinyint", ["-128", "127"]),
    ("tinyint unsigned", ["255"]),
    ("boolean", ["1", "0"]),
    ("smallint", ["-32768"]),
    ("smallint unsigned", ["65535"]),
    ("mediumint", ["-8388608"]),
    ("mediumint unsigned", ["16777215"]),
    ("int", ["-2147483648"]),
    ("int unsigned", ["4294967295"]),
    ("bigint", ["-9223372036854775808"]),
    ("bigint unsigned", ["9223372036854775807"]),
    ("decimal(10,2)", ["12345678.91"]),
    ("decimal(65,30)", ["1.000000000000000000000000000001"]),
    ("float", ["16777217", "1.2345678"]),
    ("double", ["0.1", "1e300"]),
    ("bit(1)", ["b'1'", "b'0'"]),
    ("bit(8)", ["b'00000101'"]),
    ("bit(64)", ["b'1'"]),
    ("char(5)", ["'ab'"]),
    ("varchar(9)", ["'ab'", "''"]),
    ("binary(4)", ["x'00ff'"]),
    ("varbinary(9)", ["x'ff'"]),
    ("tinytext", ["'a'"]),
    ("text", ["'\u20ac'"]),
    ("mediumtext", ["'a'"]),
    ("longtext", ["'a'"]),
    ("tinyblob", ["x'ff'"]),
    ("blob", ["x'ff'"]),
    ("mediumblob", ["x'ff'"]),
    ("longblob", ["x'ff00'"]),
    ("enum('a','b')", ["'b'"]),
    ("set('a','b')", ["'a,b'", "''"]),
    ("date", ["'2024-02-29'"]),
    ("time(3)", ["'23:59:59.123'"]),
    ("datetime(3)", ["'2024-05-01 12:30:00.25'"]),
    ("timestamp(3) null", ["'2024-05-01 12:30:00.25'"]),
    ("year", ["2024", "1901"]),
    ("json", ["'{\"a\": [1, null]}'"]),
    ("uuid", ["'11111111-2222-3333-4444-555555555555'"]),
    ("inet4", ["'10.0.0.1'"]),
    ("inet6", ["'::1'"]),
    ("point", ["ST_GeomFromText('POINT(1 2)')"]),
    ("linestring", ["ST_GeomFromText('LINESTRING(1 2, 3 4)')"]),
    ("polygon", ["ST_GeomFromText('POLYGON((0 0, 1 0, 1 1, 0 0))')"]),
    ("geometry", ["ST_GeomFromText('POINT(1 2)', 4326)"]),
    ("geometrycollection", ["ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2))')"]),
]
SQLITE: Types = [
    ("INTEGER", ["-9223372036854775808", "9223372036854775807"]),
    ("TINYINT", ["1"]),
    ("UNSIGNED BIG INT", ["1"]),
    ("REAL", ["0.1", "1e300"]),
    ("DOUBLE PRECISION", ["1.5"]),
    ("FLOAT", ["1.5"]),
    ("NUMERIC", ["1.5"]),
    ("DECIMAL_TEXT(30,10)", ["'12345678901234567890.0123456789'"]),
    ("DECIMAL(10,2)", ["1.25"]),
    ("BOOLEAN", ["1", "0"]),
    ("TEXT", ["'a'", "''"]),
    ("VARCHAR(9)", ["'ab'"]),
    ("CLOB", ["'ab'"]),
    ("BLOB", ["x'00ff'"]),
    ("DATE", ["'2024-02-29'"]),
    ("TIME", ["'23:59:59.123000'"]),
    ("DATETIME", ["'2024-05-01 12:30:00.250000'"]),
    ("TIMESTAMP", ["'2024-05-01 12:30:00.250000'"]),
    ("JSON_TEXT", ["'[1]'"]),
    ("ANYTHING", ["'a'"]),
]
DUCKDB: Types = [
    ("TINYINT", ["-128"]),
    ("SMALLINT", ["-32768"]),
    ("INTEGER", ["-2147483648"]),
    ("BIGINT", ["-9223372036854775808"]),
    ("HUGEINT", ["170141183460469231731687303715884105727"]),
    ("UTINYINT", ["255"]),
    ("USMALLINT", ["65535"]),
    ("UINTEGER", ["4294967295"]),
    ("UBIGINT", ["18446744073709551615"]),
    ("UHUGEINT", ["340282366920938463463374607431768211455"]),
    ("BIGNUM", ["'1234567890123456789012345678901234567890123'"]),
    ("FLOAT", ["1.1", "16777216"]),
    ("DOUBLE", ["0.1", "1e300"]),
    ("DECIMAL(10,2)", ["12345678.91"]),
    ("DECIMAL(38,10)", ["1234567890123456789012345678.0000000001"]),
    ("BOOLEAN", ["true", "false"]),
    ("VARCHAR", ["'a'", "''"]),
    ("BLOB", ["'\\x00\\xFF'::BLOB"]),
    ("BIT", ["'10101'"]),
    ("DATE", ["'2024-02-29'"]),
    ("TIME", ["'23:59:59.123'"]),
    ("TIMETZ", ["'12:00:00+02'"]),
    ("TIMESTAMP", ["'2024-05-01 12:30:00.25'"]),
    ("TIMESTAMP_S", ["'2024-05-01 12:30:00'"]),
    ("TIMESTAMP_MS", ["'2024-05-01 12:30:00.25'"]),
    ("TIMESTAMP_NS", ["'2024-05-01 12:30:00.25'"]),
    ("TIMESTAMPTZ", ["'2024-05-01 12:30:00.25+02'"]),
    ("INTERVAL", ["'1 month'", "INTERVAL 25 HOUR"]),
    ("UUID", ["'11111111-2222-3333-4444-555555555555'"]),
    ("JSON", ["'{\"a\": [1, null]}'"]),
    ("ENUM('sad', 'ok')", ["'sad'"]),
    ("INTEGER[]", ["[1, NULL]", "[]"]),
    ("INTEGER[][]", ["[[1], [2, 3]]"]),
    ("INTEGER[2]", ["[1, 2]"]),
    ("VARCHAR[]", ["['a,b', NULL]"]),
    ("INTERVAL[]", ["[INTERVAL 1 MONTH]"]),
    ("STRUCT(a INTEGER, b VARCHAR)", ["{'a': 1, 'b': 'x y'}"]),
    ("MAP(VARCHAR, INTEGER)", ["MAP {'a': 1}"]),
    ("UNION(n INTEGER, t VARCHAR)", ["union_value(n := 1)"]),
]
ALL = {
    "postgresql": (POSTGRESQL, POSTGRESQL_SETUP),
    "mariadb": (MARIADB, ()),
    "sqlite": (SQLITE, ()),
    "duckdb": (DUCKDB, ()),
}
DIFFERS = {
    "postgresql": "CAST(o.{0} AS TEXT) IS DISTINCT FROM CAST(c.{0} AS TEXT)",
    "mariadb": "NOT (o.{0} <=> c.{0})",
    "sqlite": "o.{0} IS NOT c.{0} OR typeof(o.{0}) <> typeof(c.{0})",
    "duckdb": "CAST(o.{0} AS VARCHAR) IS DISTINCT FROM CAST(c.{0} AS VARCHAR)",
}
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}


def has_xml(database: TestDatabase) -> bool:
    """Whether the server was built with libxml."""
    try:
        database.run("SELECT '<a>1</a>'::xml")
    except NotSupportedError:
        return False
    return True


def make(database: TestDatabase) -> Types:
    """Make two tables of all types, the first with a row for each value and one of NULLs."""
    types, setup = ALL[database.kind]
    if database.kind == "postgresql" and not has_xml(database):
        types = [each for each in types if each[0] != "xml"]
    columns = ", ".join(f"c{number} {declared}" for number, (declared, _) in enumerate(types))
    create = "CREATE TABLE {} (id INTEGER NOT NULL PRIMARY KEY, " + columns + ")"
    database.run(*setup, create.format("origin"), create.format("copies"))
    count = max(len(values) for _, values in types)
    for row in range(count):
        chosen = [values[min(row, len(values) - 1)] for _, values in types]
        database.run(f"INSERT INTO origin VALUES ({row}, {', '.join(chosen)})".replace("%", "%%"))
    database.run(f"INSERT INTO origin (id) VALUES ({count})")
    return types


def over_json(record: SourceRecord) -> SinkRecord:
    """The record as a sink gets it from the topic."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    data = converter.from_connect_data("t", None, record.value_schema, record.value)
    schema, value = converter.to_connect_data("t", None, data)
    return SinkRecord("copies", 0, None, None, schema, value, 0, None)


@pytest.mark.parametrize("settings", [{}, UPSERT], ids=["insert", "upsert"])
def test_every_type_is_the_same_in_the_other_table(
    database: TestDatabase, settings: dict[str, str]
) -> None:
    types = make(database)
    source = source_task(database, mode="bulk", **{"table.whitelist": "origin"})
    found = drained(source, 1)
    source.stop()
    reporter = Reporter()
    sink = sink_task(database, SinkContext(reporter), **settings)
    sink.put([over_json(record) for record in found])
    sink.stop()

    assert [str(error) for _, error in reporter.reports] == []
    differing = []
    for number, (declared, _) in enumerate(types):
        name = f"c{number}"
        query = f"SELECT o.id, o.{name}, c.{name} FROM origin o LEFT JOIN copies c ON c.id = o.id"
        differs = (
            DIFFERS[database.kind] if declared != "numeric" else "o.{0} IS DISTINCT FROM c.{0}"
        )
        rows = database.rows(f"{query} WHERE c.id IS NULL OR {differs.format(name)}")
        differing += [(declared, *map(str, row)) for row in rows]
    assert differing == []


@pytest.mark.databases("postgresql", "mariadb")
def test_a_query_has_the_types_of_the_table(database: TestDatabase) -> None:
    types = make(database)
    unlike = [n for n, (declared, _) in enumerate(types) if declared in ("float", "int[][]")]
    names = ", ".join(["id", *(f"c{n}" for n in range(len(types)) if n not in unlike)])
    by_table = source_task(database, mode="bulk", **{"table.whitelist": "origin"})
    by_query = source_task(database, mode="bulk", query=f"SELECT {names} FROM origin")
    of_table, of_query = (drained(task, 1)[0].value_schema for task in (by_table, by_query))
    by_table.stop()
    by_query.stop()

    assert of_table is not None
    assert of_query is not None
    expected = {field.name: field.schema.optionally(True) for field in of_table.fields}
    assert [(field.name, field.schema) for field in of_query.fields] == [
        (name, expected[name]) for name in names.split(", ")
    ]


REFUSED = {
    "postgresql": [
        ("int[]", "'{{1,2},{3,4}}'"),
        ("numeric", "'NaN'"),
        ("numeric(4,1)", "'NaN'"),
        ("numeric", "'infinity'"),
        ("date", "'infinity'"),
        ("timestamp", "'0044-03-15 BC'"),
        ("time", "'24:00'"),
    ],
    "mariadb": [
        ("time", "'25:00:00'"),
        ("time", "'-00:00:01'"),
        ("bigint unsigned", "18446744073709551615"),
        ("date", "'0000-00-00'"),
    ],
    "sqlite": [
        ("INTEGER", "'a'"),
        ("INTEGER", "1.5"),
        ("TEXT", "x'ff'"),
        ("REAL", "'a'"),
        ("BOOLEAN", "7"),
        ("BOOLEAN", "'perhaps'"),
        ("ANYTHING", "x'ff'"),
        ("DATE", "'soon'"),
        ("DECIMAL(4,1)", "'1.25'"),
    ],
    "duckdb": [
        ("DATE", "'10000-01-01'"),
        ("DATE", "'infinity'"),
        ("TIMESTAMP", "'-infinity'"),
        ("TIME", "'24:00:00'"),
    ],
}


def test_a_value_that_cannot_be_carried_is_an_error_and_no_other_value(
    database: TestDatabase,
) -> None:
    mode = ["SET sql_mode = ''"] if database.kind == "mariadb" else []
    carried = []
    for number, (declared, value) in enumerate(REFUSED[database.kind]):
        table = f"t{number}"
        insert = f"INSERT INTO {table} VALUES ({value})"
        database.run(f"CREATE TABLE {table} (a {declared})", *mode, insert)
        task = source_task(database, mode="bulk", **{"table.whitelist": table})
        try:
            carried += [(declared, value, each.value["a"]) for each in drained(task, 1)]
        except ConnectError:
            continue
        finally:
            task.stop()

    assert carried == []


@pytest.mark.databases("duckdb")
def test_a_query_whose_values_would_change_is_refused_when_it_is_made(
    database: TestDatabase,
) -> None:
    database.run("CREATE TABLE t (a INTEGER, b INTERVAL)")
    settings = {
        "connection.url": database.url, "mode": "bulk", "topic.prefix": "t",
        "query": "SELECT a, b FROM t",
    }  # fmt: skip

    (problem,) = JdbcSourceConnector().validate(settings)
    repaired = {**settings, "query": "SELECT a, CAST(b AS VARCHAR) AS b FROM t"}

    assert problem.key == "query"
    assert "CAST(b AS VARCHAR)" in problem.text
    assert JdbcSourceConnector().validate(repaired) == []


@pytest.mark.databases("mariadb", "duckdb")
def test_a_table_with_a_column_that_is_cast_may_change(database: TestDatabase) -> None:
    kind = "FLOAT" if database.kind == "mariadb" else "INTERVAL"
    database.run(f"CREATE TABLE t (id INTEGER NOT NULL, a {kind})", "INSERT INTO t (id) VALUES (1)")
    settings = {"mode": "incrementing", "incrementing.column.name": "id", "poll.interval.ms": "0"}
    task = source_task(database, **settings)
    first = drained(task, 1)

    database.run("ALTER TABLE t ADD COLUMN b INTEGER", "INSERT INTO t (id, b) VALUES (2, 7)")
    found = drained(task, 1)
    task.stop()

    assert [record.value["id"] for record in first] == [1]
    assert [(record.value["id"], record.value["b"]) for record in found] == [(2, 7)]


OWN_ARRAYS: list[tuple[str, Schema, list[Any], list[Any]]] = [
    ("mood[]", OPTIONAL_STRING, ["sad", None, "ok"], ["sad", None, "ok"]),
    ("positive[]", INT64, [7, 8], ["7", "8"]),
    ("pair[]", STRING, ["(1,a)"], ["(1,a)"]),
    ("mood[]", STRING, [], []),
]


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("has_schema", [True, False])
@pytest.mark.parametrize("settings", [{}, UPSERT], ids=["insert", "upsert"])
def test_lists_are_written_into_arrays_of_own_types(
    database: TestDatabase, settings: dict[str, str], has_schema: bool, count: int
) -> None:
    names = [f"c{number}" for number in range(len(OWN_ARRAYS))]
    columns = ", ".join(f"c{number} {each[0]}" for number, each in enumerate(OWN_ARRAYS))
    database.run(*POSTGRESQL_SETUP)
    database.run(f"CREATE TABLE copies (id INT PRIMARY KEY, {columns}, t mood[])")
    schema = Schema.struct(
        {
            "id": INT64,
            **{name: Schema.array(each[1]) for name, each in zip(names, OWN_ARRAYS, strict=True)},
            "t": STRING,
        }
    )
    records = []
    for number in range(count):
        row = [number, *(each[2] for each in OWN_ARRAYS), "{ok,sad}"]
        value: Any = Struct.of_row(schema, row)
        if not has_schema:
            value = dict(zip(schema.positions, row, strict=True))
        made = schema if has_schema else None
        records.append(SinkRecord("copies", 0, None, None, made, value, number, None))
    reporter = Reporter()
    sink = sink_task(database, SinkContext(reporter), **settings)
    sink.put(records)
    sink.stop()

    assert [str(error) for _, error in reporter.reports] == []
    shown = ", ".join(f"c{number}::text[]" for number in range(len(OWN_ARRAYS)))
    wanted = tuple(each[3] for each in OWN_ARRAYS)
    assert database.rows(f"SELECT {shown}, t::text FROM copies") == [(*wanted, "{ok,sad}")] * count
