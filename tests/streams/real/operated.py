"""Apps with operators of their own, as users write them. APP names the app and its topics."""

from __future__ import annotations

import os

from moldau.streams import Context, Record, StateStore, Streams

NAME = os.environ.get("APP", "app")


class Moves:
    """Passes on by how much a price has moved."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        by = int(record.value or 0) - int(record.old or 0)
        self.context.forward(record.changed(value=str(by)))


class Highest:
    """Makes rows of the highest price of each key so far."""

    def __init__(self, context: Context) -> None:
        self.highest = context.store("highest-ever")

    def process(self, record: Record) -> str:
        found = max(int(record.value or 0), self.highest.get(record.key, 0))
        self.highest[record.key] = found
        return str(found)


moving = Streams(NAME)
_prices = moving.table(f"{NAME}-lines", str, key=str)
_prices.process(Moves, key=str, type=str).to(f"{NAME}-out")
(
    _prices.process_values(
        Highest,
        name="highest",
        stores=[StateStore("highest-ever", key=str, value=int)],
        type=str,
    )
    .changes()
    .to(f"{NAME}-largest")
)


class Totals:
    """Adds up the numbers of each key."""

    def __init__(self, context: Context) -> None:
        self.totals = context.store("totals")

    def process(self, record: Record) -> None:
        self.totals[record.key] = self.totals.get(record.key, 0) + int(record.value)


# Each line is a key of the totals; it comes out with its total.
totalled = Streams(NAME)
_totals = totalled.global_store(
    f"{NAME}-numbers", str, key=str, store=StateStore("totals", key=str, value=int), make=Totals
)
(
    totalled.stream(f"{NAME}-lines", str, key=str)
    .join(_totals, lambda _, total: str(total), key=lambda line: line)
    .to(f"{NAME}-out")
)


def root(value: int) -> int:
    if value < 0:
        raise ValueError(f"{value} is below 0")
    return int(value**0.5)


replying = Streams(NAME, on_error="reply")
replying.stream(f"{NAME}-lines", int, key=str).map_values(root).reply()
