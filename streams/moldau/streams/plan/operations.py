"""The kinds of steps. A step's inputs are streams of records unless its docstring says tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from moldau.streams.expressions.typed import Typed
from moldau.streams.plan.functions import Call, Folding
from moldau.streams.serdes.codec import Codec
from moldau.streams.state.spec import StoreSpec
from moldau.streams.windows import (
    CountWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)

Timestamp = Callable[[Any, int], int]


class Operation:
    """What a step does."""

    kind: ClassVar[str] = "operation"


@dataclass(frozen=True, slots=True)
class Source(Operation):
    """Read topics. `timestamp(value, record_time)` returns another time for a record."""

    topics: tuple[str, ...]
    key: Codec
    value: Codec
    timestamp: Timestamp | None = None
    kind: ClassVar[str] = "source"


@dataclass(frozen=True, slots=True)
class MapPairs(Operation):
    """Map records to new keys and values: call(key, value) -> (key, value)."""

    call: Call
    kind: ClassVar[str] = "map"


@dataclass(frozen=True, slots=True)
class MapValues(Operation):
    call: Call
    kind: ClassVar[str] = "map_values"


@dataclass(frozen=True, slots=True)
class SelectKey(Operation):
    call: Call
    kind: ClassVar[str] = "select_key"


@dataclass(frozen=True, slots=True)
class Filter(Operation):
    call: Call
    is_negated: bool = False
    kind: ClassVar[str] = "filter"


@dataclass(frozen=True, slots=True)
class Select(Operation):
    """Make a record of the type `make` from expressions over the values, which are of the type
    `record`. If it is dict, the expressions are put into a copy of the value. Null stays null."""

    columns: tuple[tuple[str, Typed], ...]
    record: Any
    make: Any
    kind: ClassVar[str] = "select"


@dataclass(frozen=True, slots=True)
class FlatMap(Operation):
    """Map each record to many values under the same key, or to many (key, value) pairs."""

    call: Call
    is_pairs: bool = False
    kind: ClassVar[str] = "flat_map"


@dataclass(frozen=True, slots=True)
class Peek(Operation):
    call: Call
    kind: ClassVar[str] = "peek"


@dataclass(frozen=True, slots=True)
class Branch(Operation):
    """Send each record to the first arm with a predicate that holds; see `Arm`."""

    predicates: tuple[Call, ...]
    kind: ClassVar[str] = "branch"


@dataclass(frozen=True, slots=True)
class Arm(Operation):
    """One output of a branch; `index` past the last predicate is the default."""

    index: int
    kind: ClassVar[str] = "arm"


@dataclass(frozen=True, slots=True)
class Merge(Operation):
    kind: ClassVar[str] = "merge"


@dataclass(frozen=True, slots=True)
class Repartition(Operation):
    """Send records to the partition of their key, through a topic of the app. Cut in two when the
    plan is compiled: a sink, and a source in another sub-topology.
    """

    topic: str
    partitions: int | None = None
    partitioner: Call | None = None
    keeps_null_keys: bool = False
    kind: ClassVar[str] = "repartition"


@dataclass(frozen=True, slots=True)
class Sink(Operation):
    """Write to a topic, or to the topic that `topic_call(key, value)` names."""

    topic: str | None
    key: Codec
    value: Codec
    topic_call: Call | None = None
    partitioner: Call | None = None
    drops_null_keys: bool = False
    kind: ClassVar[str] = "sink"


class Emit(Enum):
    """When updates of an aggregate are emitted to later steps."""

    # Each update, at once.
    EVERY = "every"
    # The last update of each key, when the task commits.
    COMMIT = "commit"
    # The last result of each window, once, when it is over.
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Aggregate(Operation):
    """Fold the records of each key into a table."""

    store: StoreSpec
    folding: Folding
    emit: Emit
    copies: bool = False
    kind: ClassVar[str] = "aggregate"


@dataclass(frozen=True, slots=True)
class WindowAggregate(Operation):
    """Fold the records of each key and window into a table. With `copies` each version of an
    aggregate is a copy."""

    store: StoreSpec
    folding: Folding
    windows: TimeWindows | UnlimitedWindows
    emit: Emit
    idle_ms: int | None = None
    copies: bool = False
    kind: ClassVar[str] = "window aggregate"


@dataclass(frozen=True, slots=True)
class SessionAggregate(Operation):
    store: StoreSpec
    folding: Folding
    windows: SessionWindows
    emit: Emit
    idle_ms: int | None = None
    copies: bool = False
    kind: ClassVar[str] = "session aggregate"


@dataclass(frozen=True, slots=True)
class Late(Operation):
    """Pass on the records that came too late for its parent, an aggregation in windows."""

    kind: ClassVar[str] = "late"


@dataclass(frozen=True, slots=True)
class TableSource(Operation):
    """Read a topic as a table: the last value of each key; null deletes."""

    topics: tuple[str, ...]
    key: Codec
    value: Codec
    store: StoreSpec
    timestamp: Timestamp | None = None
    kind: ClassVar[str] = "table"


@dataclass(frozen=True, slots=True)
class ToTable(Operation):
    """Turn a stream into a table: the last value of each key."""

    store: StoreSpec
    emit: Emit
    kind: ClassVar[str] = "to_table"


@dataclass(frozen=True, slots=True)
class Changes(Operation):
    """Turn a table's updates into a stream of (key, new value)."""

    kind: ClassVar[str] = "changes"


@dataclass(frozen=True, slots=True)
class TableFilter(Operation):
    """Filter a table into a table. A row that does not match is a tombstone downstream."""

    call: Call
    is_negated: bool = False
    kind: ClassVar[str] = "table filter"


@dataclass(frozen=True, slots=True)
class TableMapValues(Operation):
    """Map the values of a table; the result is a table."""

    call: Call
    kind: ClassVar[str] = "table map_values"


@dataclass(frozen=True, slots=True)
class SlidingAggregate(Operation):
    """Fold in sliding windows. `records` keeps the records that new windows are made from."""

    store: StoreSpec
    records: StoreSpec
    folding: Folding
    windows: SlidingWindows
    emit: Emit
    idle_ms: int | None = None
    copies: bool = False
    kind: ClassVar[str] = "sliding aggregate"


@dataclass(frozen=True, slots=True)
class CountAggregate(Operation):
    """Fold in windows of a fixed number of records; `value` is the codec of one aggregate."""

    store: StoreSpec
    value: Codec
    folding: Folding
    windows: CountWindows
    emit: Emit
    copies: bool = False
    kind: ClassVar[str] = "count aggregate"


@dataclass(frozen=True, slots=True)
class Suppress(Operation):
    """Hold updates back: until `limit_ms` after a window's end, or after the first held update."""

    store: StoreSpec
    until_close: bool
    limit_ms: int
    # The size of the windows, 0 if it is not fixed.
    window_ms: int = 0
    records_max: int | None = None
    bytes_max: int | None = None
    emits_when_full: bool = False
    idle_ms: int | None = None
    kind: ClassVar[str] = "suppress"


@dataclass(frozen=True, slots=True)
class Regroup(Operation):
    """Turn a table into (new, old) updates under other keys: call(key, value) -> (key, value)."""

    call: Call
    kind: ClassVar[str] = "regroup"


@dataclass(frozen=True, slots=True)
class TableAggregate(Operation):
    """Fold (new, old) updates into a table: take the old value out, put the new one in."""

    store: StoreSpec
    folding: Folding
    emit: Emit
    kind: ClassVar[str] = "table aggregate"


@dataclass(frozen=True, slots=True)
class Process(Operation):
    """A user's operator: `make(context)` returns an object with `process(record)`. `tables` are the
    stores of the step's lookups, which it may read."""

    make: Callable[[Any], Any]
    stores: tuple[StoreSpec, ...]
    tables: tuple[StoreSpec, ...] = ()
    kind: ClassVar[str] = "process"


@dataclass(frozen=True, slots=True)
class AsyncStep(Operation):
    """A stateless step with an async function; `what` is the name of the step."""

    call: Call
    what: str
    kind: ClassVar[str] = "async"


@dataclass(frozen=True, slots=True)
class MapBatch(Operation):
    """Map a batch of values to new ones: function(values) returns as many."""

    function: Callable[[Any], Any]
    kind: ClassVar[str] = "map_batch"
