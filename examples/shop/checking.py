"""Compare the totals of the pipeline with those of the database."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TypeVar

from examples.shop.database import MINUTE_MS, Totals
from examples.shop.topology import REVENUE
from moldau.client.sync import Consumer

K = TypeVar("K", int, str)


def totals_of_lake(sales: Any) -> Totals:
    """Return the totals of the sales in the lake. An order that is there twice counts twice."""
    by_minute: dict[int, int] = defaultdict(int)
    by_customer: dict[str, int] = defaultdict(int)
    rows = sales.to_pylist()
    for row in rows:
        at = round(row["at"].timestamp() * 1000)
        by_minute[at // MINUTE_MS * MINUTE_MS] += row["cents"]
        by_customer[row["customer"]] += row["cents"]
    cents = sum(row["cents"] for row in rows)
    return Totals(len(rows), cents, dict(by_minute), dict(by_customer))


def revenue_of_topic(bootstrap: str) -> dict[int, int]:
    """Return the revenue of each minute: the last record for it in the topic."""
    found: dict[int, int] = {}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions(REVENUE)
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            for part in consumer.poll(1.0):
                for record in part.records:
                    minute = json.loads(record.value)
                    found[minute["start"]] = minute["cents"]
    return found


def differences(database: Totals, lake: Totals, revenue: Mapping[int, int]) -> list[str]:
    """Return a line for each total that differs from the database's."""
    found = []
    if lake.orders != database.orders:
        found.append(f"orders: {lake.orders} in the lake, {database.orders} in the database")
    if lake.cents != database.cents:
        found.append(f"cents: {lake.cents} in the lake, {database.cents} in the database")
    found += _unequal("lake, minute", lake.by_minute, database.by_minute)
    found += _unequal("lake, customer", lake.by_customer, database.by_customer)
    found += _unequal("topic shop-revenue, minute", revenue, database.by_minute)
    return found


def _unequal(what: str, found: Mapping[K, int], expected: Mapping[K, int]) -> list[str]:
    return [
        f"{what} {key}: {found.get(key)} instead of {expected.get(key)}"
        for key in sorted(found.keys() | expected.keys())
        if found.get(key) != expected.get(key)
    ]
