"""The apps that `bench.streams` measures, in our DSL.

    BENCH_APP=count-1 BENCH_IN=lines BENCH_OUT=out moldau streams run bench.stream_apps:count ...

The name of the app, its topics and its guarantee come from the environment: each run is an app of
its own.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from moldau.streams import Stream, Streams, col, tumbling


class Order(msgspec.Struct):
    """The record of about 150 bytes that all programs read."""

    user: str
    amount: float
    kind: str
    country: str
    item: int
    note: str


class Priced(msgspec.Struct):
    """The result of the stateless program for a record."""

    user: str
    amount: float
    country: str


class Scored(msgspec.Struct):
    """The result of the computing program for a record."""

    user: str
    amount: float
    score: float


IN = os.environ.get("BENCH_IN", "in")
OUT = os.environ.get("BENCH_OUT", "out")


def _app() -> Streams:
    guarantee: Any = os.environ.get("BENCH_PROCESSING", "at_least_once")
    return Streams(os.environ.get("BENCH_APP", "bench"), processing=guarantee)


def _streams() -> tuple[Streams, Stream[str, Order]]:
    app = _app()
    return app, app.stream(IN, Order, key=str)


def _stateless() -> Streams:
    app, orders = _streams()
    (
        orders.filter(lambda order: order.amount > 0)
        .map_values(_taxed)
        .filter(lambda order: order.kind != "bot")
        .map_values(_shouted)
        .map_values(_priced)
        .to(OUT)
    )
    return app


def _taxed(order: Order) -> Order:
    order.amount *= 1.19
    return order


def _shouted(order: Order) -> Order:
    order.country = order.country.upper()
    return order


def _priced(order: Order) -> Priced:
    return Priced(order.user, order.amount, order.country)


def _expressions(kind: Any) -> Streams:
    """The five stateless operators as expressions; `kind` is the type of the records, if any."""
    app = _app()
    orders: Any = app.stream(IN, kind, key=str) if kind else app.stream(IN, key=str)
    (
        orders.filter(col("amount") > 0)
        .with_columns(amount=col("amount") * 1.19)
        .filter(col("kind") != "bot")
        .with_columns(country=col("country").upper())
        .select("user", "amount", "country")
        .to(OUT)
    )
    return app


def _lambdas() -> Streams:
    """The five stateless operators as functions of records without a type."""
    app = _app()
    orders: Any = app.stream(IN, key=str)
    (
        orders.filter(lambda order: order["amount"] > 0)
        .map_values(lambda order: {**order, "amount": order["amount"] * 1.19})
        .filter(lambda order: order["kind"] != "bot")
        .map_values(lambda order: {**order, "country": order["country"].upper()})
        .map_values(lambda order: {name: order[name] for name in Priced.__struct_fields__})
        .to(OUT)
    )
    return app


def _count() -> Streams:
    app, orders = _streams()
    orders.group_by_key().count(name="counts").changes().to(OUT)
    return app


def _windowed() -> Streams:
    app, orders = _streams()
    windows = orders.group_by_key().window(tumbling("1m", grace="5s"))
    counts = windows.count(name="minutes").changes()
    counts.map(lambda key, value: (key.key, value), key=str, type=int).to(OUT)
    return app


def _join() -> Streams:
    app, orders = _streams()
    others = app.stream(os.environ.get("BENCH_OTHER", "other"), Order, key=str)
    orders.join(others, _both, within="5s", name="pairs").to(OUT)
    return app


def _both(one: Order, other: Order) -> Priced:
    return Priced(one.user, one.amount + other.amount, other.country)


def _kept() -> Streams:
    """The last value of each key; only short ones come out, which `bench.streams_groups` sends."""
    app = _app()
    values = app.stream(IN, str, key=str).group_by_key()
    kept = values.reduce(lambda _, value: value, name="kept").changes()
    kept.filter(lambda value: len(value) < 100).to(OUT)
    return app


# The weights of a model that looks at three letters at a time.
_WEIGHTS = tuple((index * 37 % 101) / 101 for index in range(256))
_OUTLIER = 980.0


def scored(order: Order) -> Scored:
    """Compute for about ten microseconds, as a model or a parser in plain Python does."""
    codes = order.note.encode()
    total = 0.0
    for first, second, third in zip(codes, codes[1:], codes[2:], strict=False):
        total += _WEIGHTS[(first * 31 + second * 7 + third) & 255]
    return Scored(order.user, order.amount, total * order.amount)


def is_outlier(found: Scored) -> bool:
    """Whether it is one of fifty records, or a mark that `bench.streams` puts between them."""
    return found.amount > _OUTLIER or found.user.startswith("mark-")


def _scoring() -> Streams:
    app, orders = _streams()
    orders.map_values(scored).filter(is_outlier).to(OUT)
    return app


stateless, count, windowed, join = _stateless(), _count(), _windowed(), _join()
scoring, kept = _scoring(), _kept()
expressions, untyped, lambdas = _expressions(Order), _expressions(None), _lambdas()
