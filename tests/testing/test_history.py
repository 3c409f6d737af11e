"""A history is judged: each kind of anomaly is found where it is, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.errors import BadData
from moldau.testing.anomalies import Anomaly, Kind, find_anomalies
from moldau.testing.history import (
    Copy,
    Ended,
    Event,
    Mark,
    Moved,
    Outcome,
    Read,
    ReadAll,
    Sent,
    events_of,
    line_of,
)

P = "t-0"
UNKNOWN, FAILED = Outcome.UNKNOWN, Outcome.FAILED

GOOD: list[Event] = [
    Sent("p", P, "a", 0),
    Sent("p", P, "b", outcome=UNKNOWN),
    Sent("p", P, "c", 2),
    Sent("q", P, "d", outcome=FAILED),
    Sent("q", P, "e", 4, transaction="T1"),
    Sent("q", P, "f", 6, transaction="T2"),
    Ended("T1", Outcome.ACKNOWLEDGED),
    Ended("T2", FAILED),
    Read("early", P, 0, "a"),
    Moved("early", P),
    Read("early", P, 0, "a"),
    Read("c", P, 0, "a"),
    Read("c", P, 1, "b"),
    Read("c", P, 2, "c"),
    Read("c", P, 4, "e", transaction="T3"),
    ReadAll("c"),
    Mark("b1", P, 0, 2),
    Mark("b1", P, 0, 2),
    Mark("b2", P, 1, 1),
    Copy("b1", P, 0, "x"),
    Copy("b1", P, 2, "y"),
    Copy("b2", P, 2, "y"),
]

BAD: dict[Kind, list[Event]] = {
    Kind.INCONSISTENT_OFFSETS: [
        Sent("p", P, "a", 0),
        Sent("q", P, "b"),
        Read("c", P, 0, "b"),
        Read("d", P, 0, "a"),
    ],
    Kind.DUPLICATE: [Sent("p", P, "a", 0), Read("c", P, 1, "a")],
    Kind.LOST_WRITE: [Sent("p", P, "a", 0), Sent("p", P, "b", 1), Read("c", P, 1, "b")],
    Kind.UNSEEN: [Sent("p", P, "a", 0), ReadAll("c")],
    Kind.NEVER_SENT: [Read("c", P, 0, "a")],
    Kind.ABORTED_READ: [
        Sent("p", P, "a", transaction="T"),
        Ended("T", FAILED),
        Read("c", P, 0, "a"),
    ],
    Kind.PRECOMMITTED_READ: [
        Sent("p", P, "a", 0, transaction="T"),
        Read("c", P, 0, "a", transaction="T"),
    ],
    Kind.TORN_TRANSACTION: [
        Sent("p", P, "a", 0, UNKNOWN, "T"),
        Sent("p", P, "b", 1, UNKNOWN, "T"),
        Read("c", P, 0, "a"),
        ReadAll("c"),
    ],
    Kind.CIRCULAR_READS: [
        Sent("p", P, "a", 0, transaction="T1"),
        Sent("q", P, "b", 1, transaction="T2"),
        Read("c", P, 1, "b", transaction="T1"),
        Read("d", P, 0, "a", transaction="T2"),
    ],
    Kind.POLL_SKIP: [
        *(Sent("p", P, each, at) for at, each in enumerate("abc")),
        *(Read("d", P, at, each) for at, each in enumerate("abc")),
        Read("c", P, 0, "a"),
        Read("c", P, 2, "c"),
    ],
    Kind.NONMONOTONIC_POLL: [
        *(Sent("p", P, each, at) for at, each in enumerate("ab")),
        Read("c", P, 0, "a"),
        Read("c", P, 1, "b"),
        Read("c", P, 0, "a"),
    ],
    Kind.NONMONOTONIC_SEND: [Sent("p", P, "a", 1), Sent("p", P, "b", 0)],
    Kind.WATERMARK_WENT_BACK: [Mark("b1", P, 0, 2), Mark("b1", P, 0, 1)],
    Kind.REPLICAS_DIFFER: [Copy("b1", P, 0, "x"), Copy("b2", P, 0, "y")],
}


def test_a_good_history_has_no_anomaly() -> None:
    assert find_anomalies(GOOD) == []


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
def test_each_anomaly_is_found_alone(kind: Kind) -> None:
    found = find_anomalies(BAD[kind])
    assert {each.kind for each in found} == {kind}


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
def test_an_anomaly_is_found_among_good_partitions(kind: Kind) -> None:
    elsewhere = [event for event in GOOD if not isinstance(event, ReadAll)]
    moved = [
        event if isinstance(event, Ended | ReadAll) else replace(event, partition="other-1")
        for event in BAD[kind]
    ]
    assert kind in {each.kind for each in find_anomalies([*elsewhere, *moved])}


def test_a_record_that_was_lost_is_named() -> None:
    (found,) = find_anomalies(BAD[Kind.LOST_WRITE])
    assert found == Anomaly(Kind.LOST_WRITE, P, "value=a offset=0 read_to=1")
    assert str(found).endswith("before records that were read: t-0 value=a offset=0 read_to=1")


def test_replicas_of_another_length_differ() -> None:
    events = [Copy("b1", P, 0, "x"), Copy("b1", P, 1, "y"), Copy("b2", P, 0, "x")]
    assert [each.kind for each in find_anomalies(events)] == [Kind.REPLICAS_DIFFER]


def test_a_history_is_lines_of_json() -> None:
    lines = [line_of(event) for event in GOOD]
    assert list(events_of([*lines, "", "\n"])) == GOOD
    assert list(events_of(['{"event": "read-all", "consumer": "c"}'])) == [ReadAll("c")]


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        '{"event": "told"}',
        '{"event": "read-all"}',
        '{"event": "ended", "transaction": "T", "outcome": "perhaps"}',
    ],
)
def test_a_line_that_is_no_event_is_named(line: str) -> None:
    with pytest.raises(BadData, match="line=2"):
        list(events_of(["", line]))
