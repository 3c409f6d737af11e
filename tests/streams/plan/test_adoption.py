"""What keeps an app from taking over the state of one of Kafka Streams, line by line."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from moldau.client import TopicPartition
from moldau.streams import Streams, serde, session, sliding, tumbling, until_close
from moldau.streams.plan.adoption import (
    JavaApp,
    PartitionState,
    adoption,
    reads_changelog,
)
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.upgrade import RunningApp, kept_topology, upgrade

LOG, REPARTITION = "wc-counts-changelog", "wc-counts-repartition"
LINES = TopicPartition("lines", 0)


def counting(name: str = "counts") -> Plan:
    app = Streams("wc")
    app.stream("lines", str).group_by(len).count(name=name, type=serde("long"))
    return app.plan()


def joining() -> Plan:
    app = Streams("wc")
    orders, customers = (app.table(each, str, key=str) for each in ("orders", "customers"))
    orders.join(customers, on=lambda order: order, name="placed")
    return app.plan()


def state(committed: int | None = 3, begin: int = 0, end: int = 5) -> PartitionState:
    return PartitionState(begin, end, committed, end)


def one_of_java(**changed: Any) -> JavaApp:
    read = {LINES: state(), TopicPartition(REPARTITION, 0): state(5)}
    return replace(JavaApp((), read, {}, {}), **changed)


def running(*more: str, plan: Plan | None = None, **changed: Any) -> RunningApp:
    made = [LOG, REPARTITION, *more]
    topics = dict.fromkeys((*made, "lines", "orders", "customers"), 1)
    found = RunningApp(None, {}, topics, made, {LOG: (0,)}, has_offsets=True)
    return replace(found, **changed)


def stops(plan: Plan, there: RunningApp, other: JavaApp) -> str:
    """What stops the take-over, in lines."""
    found = adoption(plan, there, upgrade(plan, there), other)
    return "\n".join(f"{each.what}: {each.why}" for each in found if each.verdict == "stops")


def test_an_app_with_the_names_of_the_other_takes_all() -> None:
    found = adoption(counting(), running(), upgrade(counting(), running()), one_of_java())
    assert {each.what: each.verdict for each in found} == {
        "group wc": "taken", "store counts": "taken", f"topic {REPARTITION}": "taken",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"members": ["client at /10.0.0.1"]}, "client at /10.0.0.1: stop all instances"),
        ({"read": {LINES: state(None)}}, "is this the application.id of the Java app?"),
        ({"read": {LINES: state(1, begin=2)}}, "goes on at 1 and the log begins at 2"),
        ({"read": {LINES: state(6)}}, "goes on at 6 and the log ends at 5"),
        ({"unreadable": {LOG: "the value is no long"}}, f"{LOG}: the value is no long"),
        ({"unreadable": {REPARTITION: "no text"}}, "let the Java app process all of it"),
        ({"open_transactions": {TopicPartition(LOG, 0): "wc-1-1"}}, "wc-1-1 has left a transac"),
    ],
)
def test_the_other_app_must_have_come_to_an_end(changed: dict[str, Any], why: str) -> None:
    assert why in stops(counting(), running(), one_of_java(**changed))


def test_names_must_be_those_of_the_other_app() -> None:
    other = "wc-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog"
    found = stops(counting("totals"), running(other), one_of_java())
    assert "wc-totals-changelog does not exist" in found
    assert "name the store counts" in found
    assert "name the store KSTREAM-AGGREGATE-STATE-STORE-0000000003" in found
    assert REPARTITION not in found  # all of it is processed
    unread = one_of_java(read={LINES: state(), TopicPartition(REPARTITION, 0): state(2)})
    assert "3 records of it are not processed" in stops(counting("totals"), running(), unread)


def test_the_partitions_must_be_as_many() -> None:
    there = running(topics={LOG: 2, REPARTITION: 1, "lines": 1})
    assert f"topic {LOG}: it has 2 partitions" in stops(counting(), there, one_of_java())


def test_an_app_of_moldau_is_no_other_app() -> None:
    there = running(topology=kept_topology(counting()))
    assert "moldau streams plan" in stops(counting(), there, one_of_java())


def test_stores_of_another_form_begin_empty_and_are_named() -> None:
    app = Streams("wc")
    grouped = app.stream("lines", str, key=str).group_by_key()
    counts = grouped.window(sliding("5s")).count(name="counts", type=serde("long"))
    counts.suppress(until_close(), name="final")
    found = stops(app.plan(), running(), one_of_java())
    assert [line.partition(":")[0] for line in found.splitlines()] == [
        "store counts-records", "store final",
    ]  # fmt: skip


def test_a_foreign_key_join_is_made_anew_from_its_left_table() -> None:
    left = (
        "wc-KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000010-changelog",
        "wc-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic",
        "wc-customers-STATE-STORE-0000000000-changelog",
    )
    there = running(*left, made=left, filled={})
    read = {TopicPartition(each, 0): state() for each in ("orders", "customers")}
    found = stops(joining(), there, one_of_java(read=read))
    assert "moldau group reset wc --topic orders --to-earliest" in found
    assert found.count("\n") == 0
    read[TopicPartition("orders", 0)] = state(0)
    assert stops(joining(), there, one_of_java(read=read)) == ""


def why_not(app: Streams, key: bytes, value: bytes) -> list[str | None]:
    """Why a key and a value cannot be read from the changelog of an app's only store."""
    (store,) = app.plan().changelogs().values()
    return [check(each) for check, each in zip(reads_changelog(store), (key, value), strict=True)]


def test_the_bytes_of_other_serdes_are_noticed() -> None:
    plain, windows, sessions = Streams("plain"), Streams("windows"), Streams("sessions")
    plain.stream("in", str, key=str).group_by_key().reduce(max, name="max")
    windows.stream("in", str, key=str).group_by_key().window(tumbling("1s")).count(name="counts")
    grouped = sessions.stream("in", str, key=str).group_by_key().window(session("1s"))
    grouped.count(name="counts", type=serde("long"))
    long, key, ok = struct.pack(">q", 7), b"key", [None, None]

    assert why_not(plain, key, b"value") == ok
    assert 'serde("long")' in (why_not(plain, key, long)[1] or "")
    assert why_not(windows, key + struct.pack(">qi", 5, 0), b"3") == ok
    assert "is no int" in (why_not(windows, key + struct.pack(">qi", 5, 0), long)[1] or "")
    assert "window store" in (why_not(windows, key, b"3")[0] or "")
    assert why_not(sessions, key + struct.pack(">qq", 9, 5), long) == ok
    assert "none of a session" in (why_not(sessions, key + struct.pack(">qq", 5, 9), long)[0] or "")
    assert "is no long" in (why_not(sessions, key + struct.pack(">qq", 9, 5), b"3")[1] or "")
