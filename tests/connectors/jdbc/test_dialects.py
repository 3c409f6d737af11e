"""The SQL of each database, as text; the databases that are here run it in other tests."""

from __future__ import annotations

import pytest

from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, TableId, parse_table_id
from moldau.connectors.jdbc.dialects import dialect_of

T = TableId(None, "s", "t")
KEY, COLUMNS = ("id",), ("id", "name")

UPSERTS = {
    "postgresql": 'INSERT INTO "s"."t" ("id", "name") VALUES (%s, %s) '
    'ON CONFLICT ("id") DO UPDATE SET "name" = EXCLUDED."name"',
    "sqlite": 'INSERT INTO "s"."t" ("id", "name") VALUES (?, ?) '
    'ON CONFLICT ("id") DO UPDATE SET "name" = EXCLUDED."name"',
    "duckdb": 'INSERT INTO "s"."t" ("id", "name") VALUES (?, ?) '
    'ON CONFLICT ("id") DO UPDATE SET "name" = EXCLUDED."name"',
    "mysql": "INSERT INTO `s`.`t` (`id`, `name`) VALUES (%s, %s) "
    "ON DUPLICATE KEY UPDATE `name` = VALUES(`name`)",
    "mssql": "MERGE INTO [s].[t] WITH (HOLDLOCK) target USING (SELECT %s [id], %s [name]) incoming "
    "ON (target.[id] = incoming.[id]) WHEN MATCHED THEN UPDATE SET target.[name] = incoming.[name] "
    "WHEN NOT MATCHED THEN INSERT ([id], [name]) VALUES (incoming.[id], incoming.[name]);",
    "oracle": 'MERGE INTO "s"."t" target USING (SELECT :1 "id", :2 "name" FROM DUAL) incoming '
    'ON (target."id" = incoming."id") WHEN MATCHED THEN UPDATE SET target."name" = incoming."name" '
    'WHEN NOT MATCHED THEN INSERT ("id", "name") VALUES (incoming."id", incoming."name")',
}
UPDATES = {
    "postgresql": 'UPDATE "s"."t" SET "name" = %s WHERE "id" = %s',
    "mysql": "UPDATE `s`.`t` SET `name` = %s WHERE `id` = %s",
    "mssql": "UPDATE [s].[t] SET [name] = %s WHERE [id] = %s",
    "oracle": 'UPDATE "s"."t" SET "name" = :1 WHERE "id" = :2',
}
ADDED = {
    "postgresql": ['ALTER TABLE "s"."t" ADD COLUMN "a" TEXT NULL, ADD COLUMN "b" INT NULL'],
    "sqlite": [
        'ALTER TABLE "s"."t" ADD COLUMN "a" TEXT NULL',
        'ALTER TABLE "s"."t" ADD COLUMN "b" INTEGER NULL',
    ],
    "duckdb": [
        'ALTER TABLE "s"."t" ADD COLUMN "a" VARCHAR',
        'ALTER TABLE "s"."t" ADD COLUMN "b" INTEGER',
    ],
    "mssql": ["ALTER TABLE [s].[t] ADD [a] NVARCHAR(MAX) NULL, [b] INT NULL"],
    "oracle": ['ALTER TABLE "s"."t" ADD ("a" CLOB NULL, "b" NUMBER(10,0) NULL)'],
}


@pytest.mark.parametrize("name", UPSERTS)
def test_upsert(name: str) -> None:
    assert dialect_of(name).upsert(T, KEY, COLUMNS) == UPSERTS[name]


@pytest.mark.parametrize("name", UPDATES)
def test_update(name: str) -> None:
    assert dialect_of(name).update(T, KEY, COLUMNS) == UPDATES[name]


@pytest.mark.parametrize("name", ADDED)
def test_columns_are_added(name: str) -> None:
    columns = [
        Column("a", ColumnType(ColumnKind.STRING)),
        Column("b", ColumnType(ColumnKind.INT32)),
    ]

    assert dialect_of(name).add_columns(T, columns) == ADDED[name]


@pytest.mark.parametrize("name", UPSERTS)
def test_a_key_alone_is_upserted_without_an_update(name: str) -> None:
    statement = dialect_of(name).upsert(T, KEY, KEY)

    assert "UPDATE SET target" not in statement
    assert "SET " not in statement.replace("[", "").replace("SET [", "") or name == "mysql"


@pytest.mark.parametrize(
    ("name", "type_", "in_key", "expected"),
    [
        (
            "postgresql",
            ColumnType(ColumnKind.ARRAY, element=ColumnType(ColumnKind.INT32)),
            False,
            "INT[]",
        ),
        (
            "mysql",
            ColumnType(ColumnKind.ARRAY, element=ColumnType(ColumnKind.INT32)),
            False,
            "LONGTEXT",
        ),
        ("mysql", ColumnType(ColumnKind.STRING), True, "VARCHAR(255)"),
        ("mysql", ColumnType(ColumnKind.STRING), False, "TEXT"),
        ("mssql", ColumnType(ColumnKind.STRING), True, "NVARCHAR(450)"),
        ("oracle", ColumnType(ColumnKind.DECIMAL, None, 2), False, "NUMBER(*,2)"),
        ("mysql", ColumnType(ColumnKind.DECIMAL, None, 2), False, "DECIMAL(65,2)"),
        ("mysql", ColumnType(ColumnKind.DECIMAL, None, -2), False, "DECIMAL(65,0)"),
        ("mysql", ColumnType(ColumnKind.DECIMAL, None, 127), False, "DECIMAL(65,30)"),
        ("mssql", ColumnType(ColumnKind.DECIMAL, None, 38), False, "DECIMAL(38,38)"),
        ("duckdb", ColumnType(ColumnKind.DECIMAL, None, 127), False, "DECIMAL(38,10)"),
        ("sqlite", ColumnType(ColumnKind.DECIMAL, None, 2), False, "DECIMAL_TEXT(38,2)"),
        ("postgresql", ColumnType(ColumnKind.TIMESTAMP_TZ), False, "TIMESTAMPTZ"),
    ],
)
def test_types(name: str, type_: ColumnType, in_key: bool, expected: str) -> None:
    assert dialect_of(name).type_name(type_, in_key=in_key) == expected


@pytest.mark.parametrize("name", UPSERTS)
def test_every_kind_has_a_type(name: str) -> None:
    dialect = dialect_of(name)
    for kind in ColumnKind:
        element = ColumnType(ColumnKind.INT32) if kind is ColumnKind.ARRAY else None
        assert dialect.type_name(ColumnType(kind, element=element))


def test_names_are_quoted_so_that_they_cannot_end_the_statement() -> None:
    assert dialect_of("postgresql").identifier('a"; DROP TABLE t') == '"a""; DROP TABLE t"'
    assert dialect_of("mysql").identifier("a`b%c") == "`a``b%%c`"
    assert dialect_of("mssql").identifier("a]b") == "[a]]b]"
    assert dialect_of("sqlite", quotes=False).identifier("Plain") == "Plain"


def test_defaults_are_literals_that_cannot_end_the_statement() -> None:
    column = Column("a", ColumnType(ColumnKind.STRING), default="it's")

    created = dialect_of("postgresql").create_table(TableId(None, None, "t"), [column], ())

    assert created == "CREATE TABLE \"t\" (\"a\" TEXT DEFAULT 'it''s' NULL)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t", (None, None, "t")),
        ("s.t", (None, "s", "t")),
        ('"d"."s.x"."t""y"', ("d", "s.x", 't"y')),
        ("[s].`t`", (None, "s", "t")),
    ],
)
def test_table_names_are_parsed(text: str, expected: tuple[str | None, str | None, str]) -> None:
    assert parse_table_id(text) == TableId(*expected)


@pytest.mark.parametrize("text", ["", "a..b", "a.", 'a"b', "a.b.c.d"])
def test_names_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no table name"):
        parse_table_id(text)


def test_an_unknown_database_is_refused() -> None:
    with pytest.raises(ValueError, match="known: duckdb, mariadb"):
        dialect_of("db2")
