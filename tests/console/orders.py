"""A topic of orders, of which one is looked for."""

from __future__ import annotations

import json
from typing import Final

from moldau.client import Admin, NewTopic, Producer

ORDERS: Final = 30_000
"""More than a page without a filter reads."""
ONE: Final = 12_345
WHERE: Final = 'value.total > 9000 and headers.country == "NL"'
KEEP: Final = {"retention.ms": "-1"}
"""The orders are old."""


async def send_orders(servers: str, count: int = ORDERS) -> None:
    """Orders in three partitions: totals up to 8,999, but for two of which one is Dutch."""
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic("orders", 3, configs=KEEP), NewTopic("hidden", 1)])
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(count):
            total = {ONE: 9_500, ONE + 1: 9_600}.get(number, number % 9_000)
            order = {"id": number, "total": total, "email": f"c{number % 7}@example.org"}
            country = b"NL" if number % 10 == 5 else b"DE"
            await producer.send(
                "orders",
                json.dumps(order).encode(),
                key=b"c%d" % (number % 7),
                headers=[("country", country), ("token", b"t%d" % number)],
                partition=number % 3,
                timestamp_ms=1_700_000_000_000 + number,
            )
        await producer.flush()
