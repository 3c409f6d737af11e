"""The kinds of steps. A step's inputs are streams of records unless its docstring says tables."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

from moldau.deferred import dataclass
from moldau.streams.expressions.typed import Typed
from moldau.streams.plan.functions import Call, Folding
from moldau.streams.plan.partitioners import Partitioning
from moldau.streams.plan.policies import Policy
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

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:  # a class with slots is made twice, then without the argument
            cls.kind = kind


@dataclass(frozen=True, slots=True)
class Source(Operation, kind="source"):
    """Read topics. `timestamp(value, record_time)` returns another time for a record;
    `partitioning` is what the app declares of the writer."""

    topics: tuple[str, ...]
    key: Codec
    value: Codec
    timestamp: Timestamp | None = None
    partitioning: Partitioning | None = None


@dataclass(frozen=True, slots=True)
class MapPairs(Operation, kind="map"):
    """Map records to new keys and values: call(key, value) -> (key, value)."""

    call: Call


@dataclass(frozen=True, slots=True)
class MapValues(Operation, kind="map_values"):
    call: Call


@dataclass(frozen=True, slots=True)
class MapHeaders(Operation, kind="map_headers"):
    call: Call


@dataclass(frozen=True, slots=True)
class SelectKey(Operation, kind="select_key"):
    call: Call


@dataclass(frozen=True, slots=True)
class Filter(Operation, kind="filter"):
    call: Call
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Select(Operation, kind="select"):
    """Make a record of the type `make` from expressions over the values, which are of the type
    `record`. If it is dict, the expressions are put into a copy of the value. Null stays null."""

    columns: tuple[tuple[str, Typed], ...]
    record: Any
    make: Any


@dataclass(frozen=True, slots=True)
class FlatMap(Operation, kind="flat_map"):
    """Map each record to many values under the same key, or to many (key, value) pairs."""

    call: Call
    is_pairs: bool = False


@dataclass(frozen=True, slots=True)
class Peek(Operation, kind="peek"):
    call: Call


@dataclass(frozen=True, slots=True)
class Branch(Operation, kind="branch"):
    """Send each record to the first arm with a predicate that holds; see `Arm`."""

    predicates: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Arm(Operation, kind="arm"):
    """One output of a branch; `index` past the last predicate is the default."""

    index: int


@dataclass(frozen=True, slots=True)
class Merge(Operation, kind="merge"):
    pass


@dataclass(frozen=True, slots=True)
class Repartition(Operation, kind="repartition"):
    """Send records to the partition of their key, through a topic of the app. Cut in two when the
    plan is compiled: a sink, and a source in another sub-topology. With `is_answer` the partitioner
    sends answers back to the rows that ask, wherever these lie.
    """

    topic: str
    partitions: int | None = None
    partitioner: Call | None = None
    keeps_null_keys: bool = False
    is_answer: bool = False


@dataclass(frozen=True, slots=True)
class Sink(Operation, kind="sink"):
    """Write to a topic, or to the topic that `topic_call(key, value)` names. `partitioning` places
    keys in another way than the producer does; the app's own `partitioner` wins."""

    topic: str | None
    key: Codec
    value: Codec
    topic_call: Call | None = None
    partitioner: Call | None = None
    drops_null_keys: bool = False
    partitioning: Partitioning | None = None


@dataclass(frozen=True, slots=True)
class Reply(Operation, kind="reply"):
    """Write to the topic and partition that the headers of the record name, if they name some."""

    key: Codec
    value: Codec


class Emit(Enum):
    """When updates of an aggregate are emitted to later steps."""

    # Each update, at once.
    EVERY = "every"
    # The last update of each key, when the task commits.
    COMMIT = "commit"
    # The last result of each window, once, when it is over.
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Aggregate(Operation, kind="aggregate"):
    """Fold the records of each key into a table."""

    store: StoreSpec
    folding: Folding
    emit: Emit
    copies: bool = False


@dataclass(frozen=True, slots=True)
class WindowAggregate(Operation, kind="window aggregate"):
    """Fold the records of each key and window into a table. With `copies` each version of an
    aggregate is a copy."""

    store: StoreSpec
    folding: Folding
    windows: TimeWindows | UnlimitedWindows
    emit: Emit
    idle_ms: int | None = None
    copies: bool = False


@dataclass(frozen=True, slots=True)
class SessionAggregate(Operation, kind="session aggregate"):
    store: StoreSpec
    folding: Folding
    windows: SessionWindows
    emit: Emit
    idle_ms: int | None = None
    copies: bool = False


@dataclass(frozen=True, slots=True)
class Late(Operation, kind="late"):
    """Pass on the records that came too late for its parent, an aggregation in windows."""


@dataclass(frozen=True, slots=True)
class TableSource(Operation, kind="table"):
    """Read a topic as a table: the last value of each key; null deletes."""

    topics: tuple[str, ...]
    key: Codec
    value: Codec
    store: StoreSpec
    timestamp: Timestamp | None = None
    partitioning: Partitioning | None = None


@dataclass(frozen=True, slots=True)
class ToTable(Operation, kind="to_table"):
    """Turn a stream into a table: the last value of each key."""

    store: StoreSpec
    emit: Emit


@dataclass(frozen=True, slots=True)
class Changes(Operation, kind="changes"):
    """Turn a table's updates into a stream of (key, new value)."""


@dataclass(frozen=True, slots=True)
class TableFilter(Operation, kind="table filter"):
    """Filter a table into a table. A row that does not match is a tombstone downstream."""

    call: Call
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class TableMapValues(Operation, kind="table map_values"):
    """Map the values of a table; the result is a table."""

    call: Call


@dataclass(frozen=True, slots=True)
class SlidingAggregate(Operation, kind="sliding aggregate"):
    """Fold in sliding windows. `records` keeps the records that new windows are made from."""

    store: StoreSpec
    records: StoreSpec
    folding: Folding
    windows: SlidingWindows
    emit: Emit
    idle_ms: int | None = None
    copies: bool = False


@dataclass(frozen=True, slots=True)
class CountAggregate(Operation, kind="count aggregate"):
    """Fold in windows of a fixed number of records; `value` is the codec of one aggregate."""

    store: StoreSpec
    value: Codec
    folding: Folding
    windows: CountWindows
    emit: Emit
    copies: bool = False


@dataclass(frozen=True, slots=True)
class Suppress(Operation, kind="suppress"):
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


@dataclass(frozen=True, slots=True)
class Regroup(Operation, kind="regroup"):
    """Turn a table into (new, old) updates under other keys: call(key, value) -> (key, value)."""

    call: Call


@dataclass(frozen=True, slots=True)
class TableAggregate(Operation, kind="table aggregate"):
    """Fold (new, old) updates into a table: take the old value out, put the new one in."""

    store: StoreSpec
    folding: Folding
    emit: Emit


class ProcessOutput(Enum):
    """What follows a user's operator."""

    # What it forwards.
    RECORDS = "records"
    # What it returns for a change of a table: the new row of the same key.
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Process(Operation, kind="process"):
    """A user's operator: `make(context)` returns an object with `process(record)`. `tables` are the
    stores of the step's lookups, which it may read, as it may the `global_tables`. `is_of_table`:
    its records are changes."""

    make: Callable[[Any], Any]
    stores: tuple[StoreSpec, ...]
    tables: tuple[StoreSpec, ...] = ()
    is_of_table: bool = False
    output: ProcessOutput = ProcessOutput.RECORDS
    global_tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AsyncStep(Operation, kind="async"):
    """A stateless step with an async function; `what` is the name of the step."""

    call: Call
    what: str


@dataclass(frozen=True, slots=True)
class MapBatch(Operation, kind="map_batch"):
    """Map a batch of values to new ones: function(values) returns as many."""

    function: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One operator: its name, the steps it takes records from, and what it does.

    `key_type` and `value_type` are the types of its output; Any where none was declared.
    `is_rekeyed` says that a key may have changed since records were last sent to the partition of
    their key. `lookups` are tables whose rows the step reads, without receiving their updates.
    """

    name: str
    parents: tuple[str, ...]
    operation: Operation
    key_type: Any = Any
    value_type: Any = Any
    is_rekeyed: bool = False
    is_table: bool = False
    on_error: Policy | None = None
    lookups: tuple[str, ...] = ()
