"""The files of `moldau new shop`: orders, a join, a window and a table of results, on one page."""

from __future__ import annotations

from typing import Final

_PIPELINE: Final = """\
# orders and customers -> topics -> the app in MODULE.py -> topics -> a table of shop.db
pipeline: NAME

worker:
  settings:
    key.converter: StringConverter
    value.converter: JsonConverter
    value.converter.schemas.enable: false

topics:
  customers: {partitions: 2}
  orders: {partitions: 2}
  sales: {partitions: 2}
  revenue: {partitions: 2}

# Two queries on SQLite in memory stand for the shop's database: ten customers, and an order each
# second. With tables of your own: connection.url, and table.whitelist in place of query.
sources:
  read-customers:
    writes: [customers]
    config:
      connector.class: JdbcSource
      connection.url: "jdbc:sqlite::memory:"
      query: >-
        SELECT * FROM (
          WITH RECURSIVE numbers(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM numbers LIMIT 10)
          SELECT id, 'customer ' || id AS name, substr('ATCZDESK', id % 4 * 2 + 1, 2) AS country
          FROM numbers
        ) AS customers
      mode: incrementing
      incrementing.column.name: id
      topic.prefix: customers
  read-orders:
    writes: [orders]
    config:
      connector.class: JdbcSource
      connection.url: "jdbc:sqlite::memory:"
      query: >-
        SELECT * FROM (
          WITH RECURSIVE
            clock(now) AS (SELECT CAST(strftime('%s', 'now') AS INTEGER)),
            seconds(id) AS (
              SELECT now - 10 FROM clock UNION ALL SELECT id + 1 FROM seconds, clock WHERE id < now
            )
          SELECT id, id * 7 % 10 + 1 AS customer_id, 300 + id * 7919 % 14700 AS cents,
            id * 1000 AS at
          FROM seconds
        ) AS orders
      mode: incrementing
      incrementing.column.name: id
      topic.prefix: orders
      poll.interval.ms: 500

topologies:
  statistics:
    app: MODULE:app
    settings: {commit.interval.ms: 500}

sinks:
  write-revenue:
    connector.class: JdbcSink
    connection.url: "jdbc:sqlite:shop.db"
    topics: revenue
    table.name.format: revenue
    insert.mode: upsert
    pk.mode: record_value
    pk.fields: start
    auto.create: true
"""
_APP: Final = '''\
"""Joins each order with its customer, and sums the revenue of each minute."""

from moldau.deferred import dataclass

from moldau.streams import Streams, tumbling


@dataclass(frozen=True)
class Customer:
    id: int
    name: str
    country: str


@dataclass(frozen=True)
class Order:
    id: int
    customer_id: int
    cents: int
    at: int  # milliseconds since 1970


@dataclass(frozen=True)
class Sale:
    id: int
    customer: str
    country: str
    cents: int


@dataclass(frozen=True)
class Minute:
    start: int
    cents: int


def sale(order, customer):
    name, country = (customer.name, customer.country) if customer else ("unknown", "-")
    return Sale(order.id, name, country, order.cents)


app = Streams("NAME")

customers = app.stream("customers", Customer).select_key(lambda each: each.id)
orders = app.stream("orders", Order, timestamp=lambda order, record_time: order.at)
(
    orders.select_key(lambda order: order.customer_id)
    .left_join(customers.to_table(name="customers"), sale, name="with-customer")
    .to("sales")
)
(
    orders.group_by(lambda order: "all")
    .window(tumbling("1m", grace="1h"))
    .sum(lambda order: order.cents, name="revenue")
    .changes()
    .map_values(lambda window, cents: Minute(window.start, cents))
    .to("revenue")
)
'''
_TEST: Final = '''\
"""The app in virtual time, and the file of the pipeline."""

import subprocess
import sys

from MODULE import Customer, Order, app


def test_orders_have_their_customers_and_minutes_their_revenue():
    driver = app.test(partitions=2)
    driver.pipe("customers", Customer(1, "Ada", "AT"))
    driver.pipe("orders", Order(7, 1, 250, 60_000))
    driver.pipe("orders", Order(8, 9, 150, 61_000))
    sales = {record.value["id"]: record.value["customer"] for record in driver.read("sales")}
    assert sales == {7: "Ada", 8: "unknown"}
    assert driver.read("revenue")[-1].value == {"start": 60_000, "cents": 400}


def test_the_file_has_no_mistakes():
    subprocess.run([sys.executable, "-m", "moldau", "pipeline", "lint"], check=True)
'''
_README: Final = """\
# NAME

A shop: its database -> topics `customers` and `orders` -> the app in `MODULE.py` -> topics `sales`
and `revenue` -> the table `revenue` of `shop.db`. `pipeline.yaml` says so.

    moldau dev

Open http://127.0.0.1:8080/pipelines: the pipeline is drawn with what flows through it now. Look at
the topics, at the stores of the app, and at the table:

    moldau consume sales
    python -c "import sqlite3; print(*sqlite3.connect('shop.db').execute('SELECT * FROM revenue'))"

`moldau dev` starts the pipeline again when you save a file. The test: `pip install -e '.[test]' &&
pytest`.
"""

FILES: Final = {
    "README.md": _README,
    "pipeline.yaml": _PIPELINE,
    "MODULE.py": _APP,
    "test_MODULE.py": _TEST,
}
"""By their paths."""
