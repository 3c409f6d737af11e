"""Lake tables: rows of Delta, Iceberg and Parquet by key, read again by version, and refusals."""

from __future__ import annotations

import datetime
import decimal
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from moldau.streams import Streams, StreamsError, TopologyError, col
from moldau.streams.lakes.rows import LakeRows
from moldau.streams.plan.plan import LakeTable
from moldau.streams.plan.text import topology_text

pa = pytest.importorskip("pyarrow")
delta = pytest.importorskip("deltalake")
parquet = pytest.importorskip("pyarrow.parquet")

DAY = datetime.date(2026, 1, 2)
NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)


class Customer(msgspec.Struct):
    name: str
    city: str | None = None


class Model(pydantic.BaseModel):
    name: str


@dataclass
class Plain:
    id: int
    name: str


def rows_of(*names: str, first: int = 0) -> Any:
    cities = [None, *("Prague" for _ in names[1:])]
    ids = list(range(first, first + len(names)))
    return pa.table({"id": ids, "name": names, "city": pa.array(cities, pa.string())})


def write_delta(path: Path, table: Any) -> None:
    delta.write_deltalake(str(path), table, mode="overwrite", schema_mode="overwrite")


def write_parquet(path: Path, table: Any) -> None:
    path.mkdir(exist_ok=True)
    # Readers see old files or new ones: a new file first, then the old ones go.
    old = list(path.iterdir())
    parquet.write_table(table, path / f"part-{len(old)}-{table.num_rows}.parquet")
    for each in old:
        each.unlink()


def write_iceberg(path: Path, table: Any) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    uri = f"sqlite:///{path.parent}/catalog.db"
    catalog = catalogs.SqlCatalog("here", uri=uri, warehouse=f"file://{path.parent}")
    catalog.create_namespace_if_not_exists("shop")
    made = catalog.create_table_if_not_exists(
        "shop.customers", schema=table.schema, location=f"file://{path}"
    )
    if made.current_snapshot() is None:
        made.append(table)
    else:
        made.overwrite(table)
    catalog.close()


WRITERS = {"delta": write_delta, "iceberg": write_iceberg, "parquet": write_parquet}


@pytest.fixture(params=sorted(WRITERS))
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, Callable[..., None]]:
    return request.param, tmp_path / "customers", WRITERS[request.param]


def table_of(format: Any, path: Path | str, kind: Any = Any, *, key: str = "id") -> LakeTable:
    return LakeTable("customers", format, str(path), key, kind, 10_000)


def values(rows: LakeRows, *keys: Any) -> list[Any]:
    return [None if (found := rows.get(key)) is None else found[0] for key in keys]


def test_rows_are_found_by_key_and_read_again_when_there_is_a_version(
    lake: tuple[str, Path, Callable[..., None]],
) -> None:
    format, path, write = lake
    write(path, rows_of("ada", "bob"))
    rows = LakeRows(table_of(format, path, Customer))
    first = rows.newer()
    assert first is not None
    assert values(rows, 0) == [None], "nothing is taken before the owner says so"
    rows.take(first)
    assert values(rows, 0, 1, 2) == [Customer("ada"), Customer("bob", "Prague"), None]
    assert rows.newer() is None

    write(path, rows_of("eva", "jan", "ole", first=1))
    second = rows.newer()
    assert second is not None
    rows.take(second)
    assert values(rows, 0, 1) == [None, Customer("eva")]
    assert len(rows) == 3


def test_an_older_version_of_delta_and_iceberg_can_be_read(
    lake: tuple[str, Path, Callable[..., None]],
) -> None:
    format, path, write = lake
    write(path, rows_of("ada"))
    rows = LakeRows(table_of(format, path))
    first = rows.newer()
    assert first is not None
    write(path, rows_of("eva", "jan"))
    again = rows.read(first.version)
    assert len(again.rows) == (2 if format == "parquet" else 1)


def test_a_table_made_anew_is_another_version(tmp_path: Path) -> None:
    rows = LakeRows(table_of("delta", tmp_path / "one"))
    write_delta(tmp_path / "one", rows_of("ada"))
    first = rows.newer()
    assert first is not None
    rows.take(first)
    (tmp_path / "one").rename(tmp_path / "two")
    write_delta(tmp_path / "one", rows_of("eva"))
    second = rows.newer()
    assert second is not None
    assert second.rows[0][0]["name"] == "eva"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Any, {"id": 0, "name": "ada", "city": None}),
        (dict, {"id": 0, "name": "ada", "city": None}),
        (Customer, Customer("ada")),
        (Model, Model(name="ada")),
        (Plain, Plain(0, "ada")),
    ],
)
def test_rows_have_the_type_that_is_declared(tmp_path: Path, kind: Any, expected: object) -> None:
    write_delta(tmp_path / "t", rows_of("ada"))
    rows = LakeRows(table_of("delta", tmp_path / "t", kind))
    found = rows.newer()
    assert found is not None
    assert found.rows[0][0] == expected


def test_values_are_those_of_python(tmp_path: Path) -> None:
    columns = {"id": ["a"], "day": [DAY], "at": [NOON], "price": [decimal.Decimal("1.50")]}
    write_delta(tmp_path / "t", pa.table(columns))
    found = LakeRows(table_of("delta", tmp_path / "t")).newer()
    assert found is not None
    price = decimal.Decimal("1.50")
    assert found.rows["a"][0] == {"id": "a", "day": DAY, "at": NOON, "price": price}


def test_a_row_with_a_null_key_is_left_out(tmp_path: Path) -> None:
    write_delta(tmp_path / "t", pa.table({"id": pa.array([None, None, 3], pa.int64())}))
    found = LakeRows(table_of("delta", tmp_path / "t")).newer()
    assert found is not None
    assert list(found.rows) == [3]


def test_only_rows_for_which_the_condition_holds_are_read(
    lake: tuple[str, Path, Callable[..., None]],
) -> None:
    format: Any
    format, path, write = lake
    cities = pa.array(["Prague", None, "Brno"], pa.string())
    write(path, pa.table({"id": [1, 2, 3], "name": ["ada", "bob", "eva"], "town": cities}))
    app = Streams("app")
    customers = app.lake_table(
        "customers", Customer, format=format, path=path, key="id", where=col("town") != "Brno"
    )
    app.stream("in").join(customers, lambda one, other: other, key=int).to("out")
    (table,) = app.plan().lake_tables

    rows = LakeRows(table)

    found = rows.newer()
    assert found is not None
    assert {key: value for key, (value, _) in found.rows.items()} == {1: Customer("ada")}
    rows.give([{"id": 7, "name": "ole", "town": "Oslo"}, {"id": 8, "name": "jan", "town": None}])
    assert values(rows, 7, 8) == [Customer("ole"), None]
    assert "by id where town != 'Brno'" in topology_text(app.plan())


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    write_delta(tmp_path / "t", rows_of("ada", "bob"))
    twice = pa.table({"id": [7, 7], "name": ["ada", "bob"]})
    write_delta(tmp_path / "twice", twice)
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    nulls = pa.table({"id": [5], "name": pa.array([None], pa.string())})
    write_delta(tmp_path / "nulls", nulls)
    cases: list[tuple[LakeTable, str]] = [
        (table_of("delta", tmp_path / "none"), f"there is no Delta table at {tmp_path}/none"),
        (table_of("delta", tmp_path / "empty"), f"there is no Delta table at {tmp_path}/empty"),
        (table_of("iceberg", tmp_path / "none"), f"there is no Iceberg table at {tmp_path}/none"),
        (table_of("iceberg", tmp_path / "empty"), f"there is no Iceberg table at {tmp_path}/empty"),
        (table_of("parquet", tmp_path / "none"), f"there is no Parquet table at {tmp_path}/none"),
        (table_of("parquet", tmp_path / "empty"), f"there is no Parquet table at {tmp_path}/empty"),
        (table_of("parquet", tmp_path / "torn.parquet"), "torn.parquet cannot be read: "),
        (table_of("delta", tmp_path / "t", key="Id"), "has no column 'Id'; did you mean 'id'?"),
        (table_of("delta", tmp_path / "t", key="x"), "no column 'x'; it has id, name, city"),
        (table_of("delta", tmp_path / "twice"), "more than one row with id=7: keys must be unique"),
        (table_of("delta", tmp_path / "nulls", Customer), "the row with id=5 is wrong: Expected"),
        (table_of("delta", tmp_path / "nulls", Model), "the row with id=5 is wrong: "),
        (
            replace(table_of("delta", tmp_path / "t"), where=(col("cty") == "x").node),
            "has no column 'cty'; did you mean 'city'?",
        ),
        (
            replace(table_of("delta", tmp_path / "t"), where=(col("id") == "x").node),
            "id (int) and 'x' (str) cannot be compared",
        ),
    ]
    for table, expected in cases:
        with pytest.raises(StreamsError) as told:
            LakeRows(table).newer()
        text = str(told.value)
        assert text.startswith("lake table customers: ")
        assert expected in text
        assert "\n" not in text


def test_a_column_that_the_type_needs_and_the_table_lacks_is_named(tmp_path: Path) -> None:
    write_delta(tmp_path / "t", pa.table({"id": [1], "title": ["x"]}))
    for kind in (Customer, Model, Plain):
        with pytest.raises(StreamsError, match=r"has no column 'name'; it has id, title"):
            LakeRows(table_of("delta", tmp_path / "t", kind)).newer()


@pytest.mark.parametrize(
    ("format", "package"),
    [("delta", "deltalake"), ("iceberg", "pyiceberg"), ("parquet", "pyarrow")],
)
def test_a_missing_package_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, format: str, package: str
) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(StreamsError, match=f"needs {package}: pip install"):
        LakeRows(table_of(format, tmp_path)).newer()


def app_of(path: Path, **options: Any) -> Streams:
    app = Streams("shop")
    customers = app.lake_table("customers", Customer, format="delta", path=path, key="id")
    orders = app.stream("orders", dict[str, Any])
    named = orders.left_join(
        customers,
        lambda order, customer: {**order, "name": None if customer is None else customer.name},
        key=lambda order: order["by"],
    )
    named.to("named")
    return app


def test_a_driver_joins_with_the_files_and_reads_them_again_at_a_commit(tmp_path: Path) -> None:
    write_delta(tmp_path / "t", rows_of("ada"))
    driver = app_of(tmp_path / "t").test()
    driver.pipe("orders", {"by": 0})
    driver.pipe("orders", {"by": 1})
    write_delta(tmp_path / "t", rows_of("eva", "jan"))
    driver.commit()
    driver.pipe("orders", {"by": 0})
    driver.pipe("orders", {"by": 1})
    names = [each.value["name"] for each in driver.read("named", type=dict)]
    assert names == ["ada", None, "eva", "jan"]


def test_a_driver_takes_rows_in_place_of_files(tmp_path: Path) -> None:
    rows = [{"id": 3, "name": "ada"}]
    driver = app_of(tmp_path / "none").test()
    driver.give_lake("customers", rows)
    driver.pipe("orders", {"by": 3})
    assert driver.read("named", type=dict)[0].value == {"by": 3, "name": "ada"}
    with pytest.raises(StreamsError, match="no lake table 'customer'; it has customers"):
        driver.give_lake("customer", rows)


def test_the_plan_shows_the_table(tmp_path: Path) -> None:
    plan = app_of(tmp_path / "t").plan()
    assert plan.source_topics() == ("orders",)
    assert f"lake table customers reads delta {tmp_path}/t by id" in topology_text(plan)


def test_a_wrong_lake_table_is_refused_when_the_app_is_built(tmp_path: Path) -> None:
    good: dict[str, Any] = {"format": "delta", "path": tmp_path, "key": "id"}
    cases: list[tuple[dict[str, Any], Any, str]] = [
        ({"format": "csv"}, None, "format='csv': formats are delta, iceberg, parquet"),
        ({"path": ""}, None, "path='' is no path of a folder"),
        ({"key": ""}, None, "name the column with the key"),
        ({"refresh": "soon"}, None, "'soon' is no duration"),
        ({"refresh": 0}, None, "refresh=0 must be above 0"),
        ({}, str, "str has no fields, so no columns fit it"),
        ({"where": True}, None, 'where=True: write an expression: col("a") > 1'),
        ({"where": col("name")}, Customer, "where: name is str, and no condition"),
        ({"wher": col("name")}, None, "it takes no wher=...; it takes refresh, where"),
    ]
    for changed, kind, expected in cases:
        with pytest.raises(TopologyError) as told:
            Streams("shop").lake_table("customers", kind, **(good | changed))
        assert expected in str(told.value)
    app, other = Streams("shop"), Streams("other")
    rows = app.lake_table("customers", **good)
    with pytest.raises(TopologyError, match="the name 'customers' is taken"):
        app.lake_table("customers", **good)
    with pytest.raises(TopologyError, match="belongs to the app shop, and not to other"):
        other.stream("orders").join(rows)
