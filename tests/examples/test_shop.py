"""The parts of the shop: its topology, its report, and what it says when totals differ."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from moldau.config.yaml_tree import parse

pa = pytest.importorskip("pyarrow")

from examples.shop import lake  # noqa: E402
from examples.shop.__main__ import PIPELINES  # noqa: E402
from examples.shop.checking import differences, totals_of_lake  # noqa: E402
from examples.shop.database import MINUTE_MS, Totals  # noqa: E402
from examples.shop.report import Lag, bars, columns, lines, page, ticks  # noqa: E402
from examples.shop.topology import CUSTOMERS, ORDERS, REVENUE, SALES, app  # noqa: E402

START = 1_000 * MINUTE_MS
TOTALS = Totals(2, 300, {START: 300}, {"Ada": 100, "Ben & Co": 200})


def test_orders_meet_their_customers_and_minutes_add_up() -> None:
    driver = app.test()
    driver.pipe(CUSTOMERS, {"id": 1, "name": "Ada", "country": "AT"}, timestamp=START)
    for number, at in ((1, START), (2, START + 5), (3, START + MINUTE_MS)):
        order = {"id": number, "customer_id": 1, "cents": 100, "at": at}
        driver.pipe(ORDERS, order, timestamp=at)
    stranger = {"id": 4, "customer_id": 9, "cents": 1, "at": START + MINUTE_MS}
    driver.pipe(ORDERS, stranger, timestamp=START + MINUTE_MS)

    sales = [each.value for each in driver.read(SALES)]
    revenue = {each.value.start: each.value.cents for each in driver.read(REVENUE)}

    assert [(each.id, each.customer) for each in sales] == [
        (1, "Ada"),
        (2, "Ada"),
        (3, "Ada"),
        (4, "unknown"),
    ]
    assert revenue == {START: 200, START + MINUTE_MS: 101}


def test_totals_that_agree_have_no_differences() -> None:
    at = datetime.fromtimestamp(START / 1000, UTC)
    sales = pa.Table.from_pylist(
        [{"customer": "Ada", "cents": 100, "at": at}, {"customer": "Ben & Co", "cents": 200,
                                                       "at": at}]
    )  # fmt: skip

    assert differences(TOTALS, totals_of_lake(sales), {START: 300}) == []


def test_what_differs_is_named() -> None:
    wrong = Totals(3, 400, {START: 400}, {"Ada": 200, "Ben & Co": 200})

    found = differences(TOTALS, wrong, {})

    assert "orders: 3 in the lake, 2 in the database" in found
    assert "lake, customer Ada: 200 instead of 100" in found
    assert f"topic shop-revenue, minute {START}: None instead of 300" in found
    assert len(found) == 5


def test_the_page_is_whole_and_names_are_text() -> None:
    text = page(TOTALS, [Lag(0.0, 5, 9), Lag(1.0, 0, 0)], 12.3, [])

    assert "agree on every total" in text
    assert "Ben &amp; Co" in text
    assert "EUR 3" in text
    assert "http" not in text.replace("https://www.w3.org", "")
    assert "The totals differ: orders" in page(TOTALS, [], 1, ["orders"])


def test_a_plot_scrolls_on_a_narrow_screen() -> None:
    text = page(TOTALS, [Lag(0.0, 5, 9)], 12.3, [])

    assert text.count('<div class="plot"><svg ') == 3
    assert ".plot { overflow-x: auto; }" in text
    assert "svg { width: 100%; min-width: 720px;" in text


def test_the_card_of_the_seconds_names_what_they_are() -> None:
    text = page(TOTALS, [], 12.3, [])

    assert "<b>12</b>seconds for the whole demo" in text
    assert "from order to page" not in text


@pytest.mark.parametrize(
    ("top", "least", "marks"),
    [
        (0, 1, [0, 1]),
        (3, 1, [0, 1, 2, 3]),
        (17, 1, [0, 5, 10, 15, 20]),
        (983, 1, [0, 200, 400, 600, 800, 1000]),
        (123_456, 100, [0, 50_000, 100_000, 150_000]),
    ],
)
def test_an_axis_has_round_numbers(top: int, least: int, marks: list[int]) -> None:
    assert ticks(top, least) == marks


@pytest.mark.parametrize("count", [1, 7, 90])
def test_plots_are_good_markup_inside_their_frame(count: int) -> None:
    values = [(f"{index:02}:00", index * 100) for index in range(count)]
    lags = [Lag(float(index), index, count - index) for index in range(count)]

    for svg in (columns(values), bars(values), lines(lags)):
        root = ElementTree.fromstring(svg)  # noqa: S314 - our own markup
        width, height = (float(each) for each in root.attrib["viewBox"].split()[2:])
        for each in root.iter("rect"):
            assert 0 <= float(each.attrib["x"]) <= width
            assert float(each.attrib["y"]) + float(each.attrib["height"]) <= height + 0.1


def test_only_files_that_spark_has_committed_are_read(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name in ("good 1.parquet", "torn.parquet"):
        pq.write_table(pa.table({"id": [1, 2]}), tmp_path / name)
    where = (tmp_path / "good 1.parquet").as_uri()
    (log / "0").write_text(f'v1\n{{"path":"{where}","size":1,"action":"add"}}')
    (log / ".0.crc").write_text("x")

    assert lake.count(tmp_path) == 2
    assert lake.read(tmp_path).column("id").to_pylist() == [1, 2]
    assert lake.count(tmp_path / "nothing") == 0


def test_its_pipeline_on_spark_differs_in_the_engine_alone() -> None:
    embedded, on_spark = (
        parse(PIPELINES[engine].read_text(), engine, "")[0].plain()
        for engine in ("embedded", "spark")
    )
    topology = on_spark["topologies"].pop("statistics")

    assert topology.pop("engine") == "spark"
    assert {each for each in topology["settings"] if not each.startswith("spark.")} == set()
    assert topology["app"] == embedded["topologies"].pop("statistics")["app"]
    assert on_spark == embedded


@pytest.mark.real
@pytest.mark.parametrize("engine", PIPELINES)
def test_its_pipeline_is_sound(engine: str) -> None:
    pytest.importorskip("pyspark", reason="Spark checks the pipeline's SQL: make peers")
    path = PIPELINES[engine]
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "moldau.cli", "pipeline", "lint", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.stdout == f"{path}: no problems\n", done.stderr
