"""The apps of the real tests, as users write them. APP names the app and its topics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from moldau.streams import Streams, retry, tumbling

NAME = os.environ.get("APP", "app")

words = Streams(NAME)
(
    words.stream(f"{NAME}-lines", str)
    .flat_map(str.split)
    .group_by(lambda word: word)
    .count(name="counts")
    .changes()
    .to(f"{NAME}-out")
)

windows = Streams(NAME)
(
    windows.stream(f"{NAME}-lines", str)
    .flat_map(str.split)
    .group_by(lambda word: word)
    .window(tumbling("1m", grace="5s"))
    .count(name="counts")
    .changes()
    .to(f"{NAME}-out")
)

# Each line is "key number": how many lines a key has had, and its largest number.
lines = Streams(NAME)
keyed = lines.stream(f"{NAME}-lines", str).group_by(lambda line: line.split()[0])
keyed.count(name="counts").changes().to(f"{NAME}-out")
keyed.reduce(max, name="largest").changes().to(f"{NAME}-largest")

numbers = Streams(NAME)
numbers.stream(f"{NAME}-lines", str).map_values(int).map_values(str).to(f"{NAME}-out")

# Each line is a key of the global table "names"; it comes out with the name that it has there.
named = Streams(NAME)
names = named.global_table(f"{NAME}-names", str, key=str, name="names")
(
    named.stream(f"{NAME}-lines", str)
    .join(names, lambda _, name: name, key=lambda line: line)
    .select_key(lambda name: name.split()[0])
    .to(f"{NAME}-out")
)

# The stream and the table have to have as many partitions as each other.
together = Streams(NAME)
rows = together.table(f"{NAME}-narrow", str, key=str)
(
    together.stream(f"{NAME}-lines", str, key=str)
    .join(rows, lambda line, row: line + row)
    .to(f"{NAME}-out")
)

# Two streams as one, of which one may have more partitions than the other.
both = Streams(NAME)
(
    both.stream(f"{NAME}-wide", str, key=str)
    .merge(both.stream(f"{NAME}-narrow", str, key=str))
    .to(f"{NAME}-out")
)

# What `words` keeps as a table, kept as windows, and with values of another type.
kind_changed = Streams(NAME)
(
    kind_changed.stream(f"{NAME}-lines", str)
    .flat_map(str.split)
    .group_by(lambda word: word)
    .window(tumbling("1m"))
    .count(name="counts")
)
type_changed = Streams(NAME)
(
    type_changed.stream(f"{NAME}-lines", str)
    .flat_map(str.split)
    .group_by(lambda word: word)
    .collect(name="counts")
    .changes()
    .map_values(str)
    .to(f"{NAME}-out")
)

# Orders with their customers: the value of an order is "CUSTOMER NUMBER".
by_customer = Streams(NAME)
customers = by_customer.table(f"{NAME}-customers", str, key=str)
(
    by_customer.table(f"{NAME}-orders", str, key=str)
    .join(
        customers,
        lambda order, customer: f"{order} {customer}",
        on=lambda order: order.split()[0],
        name="with-customer",
    )
    .changes()
    .to(f"{NAME}-out")
)

# Everything once: lines as they are, the count of each key in each window, and a foreign-key join.
exact = Streams(NAME)
_exact_lines = exact.stream(f"{NAME}-lines", str)
_exact_lines.to(f"{NAME}-copied")
(
    _exact_lines.group_by(lambda line: line.split()[0])
    .window(tumbling("10s", grace="1h"))
    .count(name="counts")
    .changes()
    .map(lambda key, count: (f"{key.key} {key.start}", str(count)))
    .to(f"{NAME}-out")
)
(
    exact.table(f"{NAME}-orders", str, key=str)
    .join(
        exact.table(f"{NAME}-customers", str, key=str),
        lambda order, customer: f"{order} {customer}",
        on=lambda order: order.split()[0],
        name="with-customer",
    )
    .changes()
    .to(f"{NAME}-joined")
)

# `words` with another name of its store.
renamed = Streams(NAME)
(
    renamed.stream(f"{NAME}-lines", str)
    .flat_map(str.split)
    .group_by(lambda word: word)
    .count(name="totals")
    .changes()
    .to(f"{NAME}-out")
)

# Topics that other clients have written. The orders of `left-out` are undeclared and joined by a
# foreign key; rows that meet by key say how they are written. WRITER is what they say.
_WRITER: Literal["crc32"] | None = "crc32" if os.environ.get("WRITER") == "crc32" else None
written_by_others = Streams(NAME)
_others = written_by_others.table(f"{NAME}-customers", str, key=str, partitioner=_WRITER)
_orders = written_by_others.table(f"{NAME}-orders", str, key=str)
(
    _orders.left_join(_others, lambda o, c: f"{o} {c}", on=lambda o: o, name="left-out")
    .changes()
    .to(f"{NAME}-left")
)
(
    _orders.join(_others, lambda o, c: f"{o} {c}", on=lambda o: o, name="inner-out")
    .changes()
    .to(f"{NAME}-inner")
)
(
    _others.join(
        written_by_others.table(f"{NAME}-cities", str, key=str, partitioner=_WRITER),
        lambda customer, city: f"{customer} {city}",
    )
    .changes()
    .to(f"{NAME}-met")
)
(
    written_by_others.stream(f"{NAME}-clicks", str, key=str, partitioner=_WRITER)
    .join(_others, lambda click, customer: f"{click} {customer}")
    .to(f"{NAME}-clicked")
)
# One branch needs a service for some lines. It is a file: while it is not there, calls fail, and
# leave a mark.
serving = Streams(NAME)


def served(line: str) -> str:
    service = Path(os.environ["SERVICE"])
    if line.endswith("7") and not service.exists():
        service.with_suffix(f".{os.getpid()}").touch()
        raise ConnectionError("not now")
    return line


given = serving.stream(f"{NAME}-lines", str)
given.to(f"{NAME}-largest")
given.group_by(lambda line: line[-1]).count(name="counts").changes().to(f"{NAME}-counts")
given.map_values(served, on_error=retry(3, backoff="3s")).to(f"{NAME}-out")


def as_marks(count: int) -> str:
    return "|" * count


# How often each line came, as a number, and in a later version as so many marks.
numbered = Streams(NAME)
(
    numbered.stream(f"{NAME}-lines", str)
    .group_by(lambda line: line)
    .aggregate(int, lambda so_far, _: so_far + 1, name="counts", type=int)
    .changes()
    .to(f"{NAME}-out")
)

marked = Streams(NAME)
(
    marked.stream(f"{NAME}-lines", str)
    .group_by(lambda line: line)
    .aggregate(
        str,
        lambda so_far, _: so_far + "|",
        name="counts",
        type=str,
        version=2,
        migrate={1: as_marks},
    )
    .changes()
    .to(f"{NAME}-out")
)
