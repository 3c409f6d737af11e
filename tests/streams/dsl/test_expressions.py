"""Expressions in topologies: what they do beside functions, and what is refused."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from moldau.streams import (
    Stream,
    Streams,
    TopologyError,
    coalesce,
    col,
    count,
    dead_letter,
    hopping,
    lit,
    session,
    tumbling,
    when,
)
from moldau.streams.plan.text import explain_text
from moldau.streams.testing.driver import Driver


class Order(msgspec.Struct):
    user: str
    amount: float
    kind: str = "shop"
    item: int | None = None


@dataclass
class Plain:
    user: str
    amount: float


class Typed(TypedDict):
    user: str
    amount: float


Build = Callable[[Stream[str, Any]], Any]
ORDERS = [
    Order("ann", 10.0, item=1),
    Order("ben", 200.0),
    Order("ann", -1.0),
    Order("bot", 5.0, "bot"),
    None,
]


def driven(build: Build, values: Any = ORDERS, kind: Any = Order, **options: Any) -> Driver:
    app = Streams("app", **options)
    build(app.stream("in", kind, key=str))
    driver = app.test()
    driver.pipe_all("in", [("k", value, at) for at, value in enumerate(values)])
    driver.commit()
    return driver


def values(driver: Driver, topic: str = "out") -> list[Any]:
    return [each.value for each in driver.read(topic, type=Any)]


def test_expressions_and_functions_mix() -> None:
    def build(stream: Stream[str, Any]) -> None:
        big = (
            stream.filter(col("amount") > 0)
            .with_columns(amount=col("amount") * 2)
            .filter(col("kind") != "bot")
            .select("amount", name=col("user").upper(), item=coalesce(col("item"), 0))
        )
        big.map_values(lambda row: f"{row.name} {row.amount} {row.item}").to("texts")
        big.filter(lambda row: row.item == 0).select("name").to("out")

    driver = driven(build)

    texts = [each.value for each in driver.read("texts", type=str)]
    assert texts == ["ANN 20.0 1", "BEN 400.0 0"]
    assert values(driver) == [{"name": "BEN"}]


def test_with_columns_keeps_the_type_of_records_that_it_fits() -> None:
    seen: list[Any] = []

    def build(stream: Stream[str, Any]) -> None:
        stream.with_columns(amount=col("amount") * 2).peek(seen.append).to("out")
        stream.with_columns(twice=col("amount") * 2).to("more")

    driver = driven(build, [ORDERS[0]])

    assert seen == [Order("ann", 20.0, item=1)]
    assert values(driver, "more") == [
        {"user": "ann", "amount": 10.0, "kind": "shop", "item": 1, "twice": 20.0}
    ]


@pytest.mark.parametrize("kind", [Any, dict[str, Any], Plain, Typed])
def test_records_of_every_type_have_columns(kind: Any) -> None:
    def build(stream: Stream[str, Any]) -> None:
        added = stream.filter(col("amount") > 1).with_columns(twice=col("amount") * 2)
        added.map_values(col("twice") + 1).to("out")
        added.to("all")

    value: Any = {"user": "ann", "amount": 2.0}
    driver = driven(build, [Plain("ann", 2.0) if kind is Plain else value, None], kind)

    assert values(driver) == [5.0]
    assert values(driver, "all") == [{**value, "twice": 4.0}]


def test_a_null_value_stays_null() -> None:
    def build(stream: Stream[str, Any]) -> None:
        stream.select("user").to("users")
        stream.filter(col("user").is_null()).with_columns(amount=lit(1.0)).to("nulls")
        stream.filter_not(col("item") == 1).to("others")

    driver = driven(build)

    assert values(driver, "users")[-1] is None
    assert values(driver, "nulls") == [None]
    assert values(driver, "others") == []


def test_branches_and_keys_are_expressions() -> None:
    def build(stream: Stream[str, Any]) -> None:
        bots, rest = stream.branch(col("kind") == "bot")
        bots.select("user").to("bots")
        rest.group_by(col("user")).count(name="counts").changes().to("out")

    driver = driven(build)

    assert values(driver, "bots") == [{"user": "bot"}]
    assert {each.key: each.value for each in driver.read("out", type=int)} == {"ann": 2, "ben": 1}


def aggregated(table: Any) -> None:
    table.agg(
        name="sums",
        n=count(),
        items=col("item").count(),
        item=col("item").sum(),
        low=col("amount").min(),
        high=(col("amount") * 2).max(),
        mean=col("amount").mean(),
    ).changes().to("out")


SUMS = {"n": 2, "items": 1, "item": 1, "low": -1.0, "high": 20.0, "mean": 4.5}


@pytest.mark.parametrize(
    "windows", [None, tumbling("1m"), hopping("1m", advance="1m"), session("1m")]
)
def test_aggregates_leave_nulls_out(windows: Any) -> None:
    def build(stream: Stream[str, Any]) -> None:
        grouped: Any = stream.group_by(col("user"))
        aggregated(grouped if windows is None else grouped.window(windows))

    driver = driven(build)
    found = {
        getattr(each.key, "key", each.key): each.value for each in driver.read("out", type=Any)
    }

    assert found["ann"] == SUMS
    assert found["ben"]["item"] is None
    assert found["ben"]["items"] == 0


def test_an_aggregate_survives_a_restart() -> None:
    driver = driven(lambda stream: aggregated(stream.group_by(col("user"))), emit="every")
    driver.restart(from_changelog=True)
    driver.read("out", type=Any)

    driver.pipe_all("in", [("k", Order("ann", 4.0, item=5), 9)])

    assert values(driver) == [{**SUMS, "n": 3, "items": 2, "item": 6, "mean": 13 / 3}]


def test_sums_of_expressions_are_those_of_functions() -> None:
    def build(stream: Stream[str, Any]) -> None:
        grouped: Any = stream.group_by(col("user"))
        grouped.sum(col("amount") * 2, name="one").changes().to("out")
        grouped.sum(lambda order: order.amount * 2, name="other").changes().to("other")

    driver = driven(build)

    assert values(driver) == values(driver, "other")


def test_a_record_without_a_result_goes_to_the_dead_letters_of_its_step() -> None:
    def build(stream: Stream[str, Any]) -> None:
        stream.select(part=1 / col("item")).to("out")

    driver = driven(
        build, [Order("a", 1, item=0), Order("b", 1, item=2)], on_error=dead_letter("bad")
    )

    assert values(driver) == [{"part": 0.5}]
    [(key, value, _, headers)] = driver.read_bytes("bad")
    assert (key, msgspec.json.decode(value or b"")["user"]) == (b"k", "a")
    assert dict(headers)["moldau.error.operator"] == b"select(part)"


def test_a_plan_shows_expressions() -> None:
    app = Streams("app")
    orders = app.stream("in", Order)
    orders.filter(col("amount") > 1).select("user", twice=col("amount") * 2).to("out")

    text = explain_text(app.plan())

    assert "filter(amount > 1): filter" in text
    assert "select of user, twice where twice=amount * 2 -> (str or bytes, Row)" in text


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda s: s.filter(col("amont") > 1), r"filter\(amont > 1\): Order has no field 'amont'; "
         "did you mean 'amount'"),
        (lambda s: s.filter(col("amount")), "is float, and no condition"),
        (lambda s: s.filter(col("user") > 1), r"user \(str\) and 1 \(int\) cannot be compared"),
        (lambda s: s.filter(col("amount") > 1 and col("item") > 1), "write & | ~ for and"),
        (lambda s: s.map_values(col("user.name")), "no field 'name', because str has no fields"),
        (lambda s: s.map_values(col("user") + "x"), "user is str, and must be a number"),
        (lambda s: s.map_values(col("amount").upper()), "amount is float, and must be str"),
        (lambda s: s.map_values(col("item").dt.hour), r"cast\(datetime\) takes milliseconds"),
        (lambda s: s.map_values(col("amount").cast(str)), "amount is float, and must be str or"),
        (lambda s: s.map_values(col("amount").cast(bytes)), "is no type to cast to"),
        (lambda s: s.map_values(when(col("item") > 1).then(1).otherwise("x")), "no common type"),
        (lambda s: s.map_values(col("item") + [1]), "is no expression and no constant"),
        (lambda s: s.map_values(col("item") + 2**63), "no integer of 64 bits"),
        (lambda s: s.map_values(col("user").substring(-1, 2)), "start=-1 must be"),
        (lambda s: s.map_values(col("")), "is no name of a field"),
        (lambda s: s.select(col("amount") * 2), r"has no name; write select\(name="),
        (lambda s: s.select("user", user=col("kind")), "'user' is given twice"),
        (lambda s: s.select("usr"), r"select\(usr=usr\): Order has no field 'usr'"),
        (lambda s: s.select(), "give at least one field"),
        (lambda s: s.select("user").filter(col("amount") > 1), "Row has no field 'amount'; it has"),
        (lambda s: s.with_columns(), "give at least one field"),
        (lambda s: s.group_by_key().agg(name="t"), "give at least one aggregate"),
        (lambda s: s.group_by_key().agg(name="t", n=col("item")), "write an aggregate"),
        (lambda s: s.group_by_key().agg(name="t", n=col("user").sum()), "there is no sum"),
        (lambda s: s.group_by_key().sum(col("usr"), name="t"), "no field 'usr'"),
        (lambda s: s.map_values(col("item").cast(datetime.datetime).dt.truncate(0)), "above 0"),
    ],
)  # fmt: skip
def test_a_wrong_expression_is_refused_when_the_topology_is_made(build: Build, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        build(Streams("app").stream("in", Order, key=str))
