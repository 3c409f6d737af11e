"""Joins as plain data. A joiner is called with (left, right), or with (key, left, right)."""

from __future__ import annotations

from enum import Enum

from moldau.deferred import dataclass
from moldau.streams.durations import Duration, in_words, milliseconds
from moldau.streams.plan.functions import Call
from moldau.streams.plan.operations import Operation
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.codec import Codec
from moldau.streams.state.spec import StoreSpec


class JoinKind(Enum):
    INNER = "inner"
    LEFT = "left"
    OUTER = "outer"


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """A left record at time t meets right records from t - before to t + after, both included."""

    before_ms: int
    after_ms: int
    grace_ms: int = 0
    idle_ms: int | None = None

    def __str__(self) -> str:
        return (
            f"from {in_words(self.before_ms)} before to {in_words(self.after_ms)} after, "
            f"grace {in_words(self.grace_ms)}"
        )


def within(
    difference: Duration | None = None,
    *,
    before: Duration | None = None,
    after: Duration | None = None,
    grace: Duration = 0,
    idle: Duration | None = None,
) -> JoinWindows:
    """Join records that are at most `difference` apart; `before` and `after` set the two ends.

    `before` and `after` say how much earlier and later the right record may be. They may be
    negative: `before="-1s", after="5s"` means from 1 s to 5 s later.
    """
    if difference is None and (before is None or after is None):
        raise TopologyError('within: give a difference, as in within("5s"), or before and after')
    ends = [
        milliseconds(end if end is not None else difference if difference is not None else 0, what)
        for end, what in ((before, "within before"), (after, "within after"))
    ]
    if ends[0] + ends[1] < 0:
        raise TopologyError(f"within: it ends before it begins: before={before!r} after={after!r}")
    grace_ms = milliseconds(grace, "within grace")
    if grace_ms < 0:
        raise TopologyError(f"within: grace={grace!r} must not be negative")
    return JoinWindows(
        ends[0], ends[1], grace_ms, None if idle is None else milliseconds(idle, "within idle")
    )


@dataclass(frozen=True, slots=True)
class StreamJoin(Operation, kind="stream join"):
    """Join two streams; the parents are left and right. `waiting` keeps records without a match."""

    join: JoinKind
    call: Call
    windows: JoinWindows
    left: StoreSpec
    right: StoreSpec
    waiting: StoreSpec | None

    @property
    def pads_left(self) -> bool:
        return self.join is not JoinKind.INNER

    @property
    def pads_right(self) -> bool:
        return self.join is JoinKind.OUTER


@dataclass(frozen=True, slots=True)
class TableLookup(Operation, kind="table lookup"):
    """Join a stream with a table, the step's lookup, with the row at that moment; with a versioned
    table, with the row at the time of the record."""

    join: JoinKind
    call: Call
    is_versioned: bool = False


@dataclass(frozen=True, slots=True)
class GlobalLookup(Operation, kind="global lookup"):
    """Join a stream with a global table, by the key that `key` makes from the record."""

    join: JoinKind
    call: Call
    key: Call
    global_tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableJoin(Operation, kind="table join"):
    """Join two tables by key; the parents are left and right. It keeps no state of its own."""

    join: JoinKind
    call: Call


@dataclass(frozen=True, slots=True)
class Subscribe(Operation, kind="foreign key subscription"):
    """First part of a foreign-key join: send the right row a reference to the left row."""

    join: JoinKind
    on: Call
    key: Codec
    value: Codec


@dataclass(frozen=True, slots=True)
class References(Operation, kind="foreign key references"):
    """Second part of a foreign-key join; the parents are subscriptions and the right table."""

    store: StoreSpec
    left_key: Codec
    right_key: Codec


@dataclass(frozen=True, slots=True)
class Resolve(Operation, kind="foreign key join"):
    """Third part of a foreign-key join; the parents are answers and the left table."""

    join: JoinKind
    call: Call
    on: Call
    store: StoreSpec
    value: Codec


@dataclass(frozen=True, slots=True)
class DelayedLookup(Operation, kind="table lookup with grace"):
    """Join a stream with a versioned table, the step's lookup, `grace_ms` later, with the row at
    the time of the record."""

    join: JoinKind
    call: Call
    grace_ms: int
    store: StoreSpec
    key: Codec
