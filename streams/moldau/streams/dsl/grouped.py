"""Records grouped by key, with or without windows, and their aggregation into tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack

from moldau.streams.dsl import foldings
from moldau.streams.dsl.aggregates import Aggregation
from moldau.streams.dsl.calls import call_of, check_sync
from moldau.streams.dsl.inference import required_parameters, result_type
from moldau.streams.dsl.joins import settle_key, unified_key
from moldau.streams.dsl.node import Node
from moldau.streams.dsl.options import TableOptions, check_options, emit_of, store_of
from moldau.streams.dsl.selections import aggregates, expression_call
from moldau.streams.dsl.table import Table
from moldau.streams.dsl.windowing import Windowing, windowed_operation
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.expressions.column import Column
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Call, Folding
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.operations import Step
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.compound import list_kind, tagged_codec
from moldau.streams.serdes.types import stored_codec
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.state.spec import StoreKind
from moldau.streams.windows import SessionWindows, TimeWindows, UnlimitedWindows, Windows

if TYPE_CHECKING:
    from moldau.streams.dsl.table import Table

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

# Selects what to sum, compare or collect: a function of the value, or of key and value.
Selector = Callable[..., R] | Column
Emits = Literal["commit", "every", "close"]


Adder = Callable[..., Any]


class Grouped(Node, Generic[K, V]):
    """Records grouped by key. Each aggregation makes a table, and needs a name for its state."""

    def __init__(self, graph: Graph, step: Step, windowing: Windowing | None = None) -> None:
        super().__init__(graph, step)
        self._windowing = windowing

    def window(
        self,
        windows: Windows,
        *,
        emit: Literal["commit", "every", "close"] | None = None,
        idle: Duration | None = None,
    ) -> Grouped[Windowed[K], V]:
        """Aggregate within windows. `emit="close"` emits a window's result only once it is over.

        `idle`: after this long without a record, stream time advances with the wall clock, so that
        the last windows close, too.
        """
        if self._windowing is not None:
            raise TopologyError("window: these records are in windows already")
        if not isinstance(windows, Windows):
            raise TopologyError(
                f"window: {windows!r:.80} is no windows; write tumbling({windows!r:.20}) or others"
            )
        idle_ms = None if idle is None else milliseconds(idle, "idle")
        if idle_ms is not None and idle_ms <= 0:
            raise TopologyError(f"window: idle={idle!r} must be above 0")
        return Grouped(self._graph, self._step, Windowing(windows, emit, idle_ms))

    def cogroup(self, add: Callable[..., Any]) -> Cogrouped[K]:
        """Begin an aggregate of several streams: add(so far, value), or add(so far, key, value)."""
        if self._windowing is not None:
            raise TopologyError("cogroup: put the cogroup into windows, not its streams")
        return Cogrouped([(self, add)])

    def count(self, *, name: str | None = None, **options: Unpack[TableOptions]) -> Table[K, int]:
        """Count the records."""
        return self._folded(foldings.count(), int, name, options)

    def sum(
        self,
        of: Selector[R] | None = None,
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Table[K, R]:
        """Add up the values, or what `of` selects."""
        call, kind = self._selected(of, "sum")
        return self._folded(foldings.total(call), kind, name, options)

    def min(
        self,
        of: Selector[R] | None = None,
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Table[K, R]:
        """Keep the smallest value, or the smallest of what `of` selects."""
        call, kind = self._selected(of, "min")
        return self._folded(foldings.extreme("min", call), kind, name, options)

    def max(
        self,
        of: Selector[R] | None = None,
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Table[K, R]:
        """Keep the largest value, or the largest of what `of` selects."""
        call, kind = self._selected(of, "max")
        return self._folded(foldings.extreme("max", call), kind, name, options)

    def mean(
        self,
        of: Selector[Any] | None = None,
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Table[K, float]:
        """Compute the mean of the values, or of what `of` selects."""
        call, _ = self._selected(of, "mean")
        table = self._folded(foldings.mean(call), tuple[int | float, int], name, options)
        return table._typed(float)

    def collect(
        self,
        of: Selector[R] | None = None,
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Table[K, list[R]]:
        """Collect all values in a list, or what `of` selects, in the order of arrival."""
        call, kind = self._selected(of, "collect")
        return self._folded(foldings.collect(call), _list_of(kind), name, options)

    def distinct(
        self,
        of: Selector[R] | None = None,
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Table[K, list[R]]:
        """Collect the distinct values in a list, or what `of` selects, in the order of arrival."""
        call, kind = self._selected(of, "distinct")
        return self._folded(foldings.distinct(call), _list_of(kind), name, options)

    def top_k(
        self,
        k: int,
        *,
        by: Callable[[V], Any] | None = None,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Table[K, list[V]]:
        """Keep the `k` largest values, compared directly or `by` a function; the largest first."""
        kind = _list_of(self._step.value_type)
        return self._folded(foldings.top_k(k, by), kind, name, options)

    def reduce(
        self,
        function: Callable[[V, V], V],
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Table[K, V]:
        """Combine the values: function(so far, value). The result starts with the first value."""
        return self._folded(foldings.reduce(function), self._step.value_type, name, options)

    def aggregate(
        self,
        initial: R | Callable[[], R],
        add: Callable[..., R],
        *,
        merge: Callable[..., R] | None = None,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Table[K, R]:
        """Fold the values: add(so far, value), or add(so far, key, value).

        `initial` is a value, or a function that makes one. Session windows need merge(one, other).
        """
        kind = foldings.aggregate_type(initial, add)
        folding = foldings.aggregate(initial, add, None, merge)
        return self._folded(folding, kind, name, options)

    def agg(
        self, *, name: str | None = None, emit: Emits | None = None, **columns: Any
    ) -> Table[K, Any]:
        """Compute aggregates of expressions: total=col("amount").sum(), n=count(). The result is a
        record of them. `name` is that of the store, `emit` as for other aggregations."""
        record = self._step.value_type
        aggregation = Aggregation(aggregates(columns, record), record)
        options = TableOptions() if emit is None else TableOptions(emit=emit)
        table = self._folded(aggregation.folding(), aggregation.state, name, options)
        return table._typed(aggregation.row)

    def _selected(self, of: Selector[Any] | None, operator: str) -> tuple[Call | None, Any]:
        """Return the selector as a call, and the type of what it selects."""
        step = self._step
        if of is None:
            return None, step.value_type
        if isinstance(of, Column):
            call = expression_call(of, step.value_type, operator)
        else:
            call = call_of(of, operator)
        return call, result_type(call, step.key_type, step.value_type)

    def _folded(
        self, folding: Folding, kind: Any, name: str | None, options: TableOptions
    ) -> Table[Any, Any]:
        check_options(folding.name, options, TableOptions)
        claimed = self._graph.claim_store(name, folding.name)
        parent = Node(self._graph, self._partitioned(claimed))
        step = parent._step
        types = (step.key_type, options.get("type", kind))
        if self._windowing is not None:
            operation, key = windowed_operation(
                self._graph, claimed, folding, (self._windowing, *types, step.value_type), options
            )
        else:
            if "versioned" in options:
                raise TopologyError(f"{claimed}: versioned=... is for table() and to_table()")
            store = store_of(claimed, StoreKind.KEY_VALUE, types, options)
            operation = op.Aggregate(store, folding, emit_of(self._graph, options, folding.name))
            key = types[0]
        added = parent._added(
            claimed,
            operation,
            key=key,
            value=types[1],
            is_table=True,
            on_error=options.get("on_error"),
        )
        return Table(self._graph, added)


def _list_of(kind: Any) -> Any:
    return list_kind(kind)


class Cogrouped(Generic[K]):
    """Several grouped streams that share one aggregate. `grouped.cogroup(add)` makes it;
    `cogroup(other, add)` adds another stream."""

    def __init__(
        self, members: Sequence[tuple[Grouped[Any, Any], Adder]], windowing: Windowing | None = None
    ) -> None:
        self._members = list(members)
        self._windowing = windowing

    def cogroup(self, other: Grouped[K, Any], add: Adder) -> Cogrouped[K]:
        """Add records of another grouped stream: add(so far, value), or (so far, key, value)."""
        if other._graph is not self._members[0][0]._graph:
            raise TopologyError("cogroup: the streams belong to two apps")
        return Cogrouped([*self._members, (other, add)], self._windowing)

    def window(
        self,
        windows: Windows,
        *,
        emit: Literal["commit", "every", "close"] | None = None,
        idle: Duration | None = None,
    ) -> Cogrouped[Windowed[K]]:
        """Aggregate within windows, as `Grouped.window` does."""
        grouped = self._members[0][0].window(windows, emit=emit, idle=idle)
        return Cogrouped(self._members, grouped._windowing)

    def aggregate(
        self,
        initial: R | Callable[[], R],
        *,
        merge: Callable[..., R] | None = None,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Table[K, R]:
        """Fold the records of all streams into one table.

        Null values are skipped, except in time, unlimited and session windows, where `add` receives
        them.
        """

        first, add = self._members[0]
        if not name:
            raise TopologyError('cogroup: it keeps state: aggregate(..., name="...")')
        kind = tagged_codec([stored_codec(each._step.value_type) for each, _ in self._members])
        graph = first._graph
        steps = [
            each._partitioned(f"{name}-{index}") for index, (each, _) in enumerate(self._members)
        ]
        key = steps[0].key_type
        for step in steps[1:]:
            key = unified_key((replace(steps[0], key_type=key), step), name)
        takes_nulls = self._windowing is not None and isinstance(
            self._windowing.windows, TimeWindows | UnlimitedWindows | SessionWindows
        )
        parts = []
        for index, step in enumerate(steps):
            settled = settle_key(graph, step, key)
            kept = settled if takes_nulls else _without_nulls(graph, settled)
            parts.append(_tagged(graph, kept, index))
        merged = first._graph.add(
            Step("merge", tuple(step.name for step in parts), op.Merge(), key, kind)
        )
        folding = foldings.aggregate(
            initial, _dispatch([adder for _, adder in self._members]), None, merge
        )
        result = foldings.aggregate_type(initial, add)
        grouped: Grouped[Any, Any] = Grouped(first._graph, merged, self._windowing)
        return grouped._folded(folding, result, name, options)


def _tagged(graph: Graph, step: Step, index: int) -> Step:
    """Add a step that pairs each value with the number of its stream."""
    tag = Call(lambda value: (index, value))
    return Node(graph, step)._added(f"tag({index})", op.MapValues(tag))


def _without_nulls(graph: Graph, step: Step) -> Step:
    is_kept = Call(lambda value: value is not None)
    return Node(graph, step)._added("not null", op.Filter(is_kept))


def _dispatch(adders: list[Adder]) -> Adder:
    check_sync("cogroup", *adders)
    calls = [adder if required_parameters(adder) > 2 else _without_key(adder) for adder in adders]

    def add(so_far: Any, key: Any, tagged: tuple[int, Any]) -> Any:
        index, value = tagged
        return calls[index](so_far, key, value)

    return add


def _without_key(adder: Adder) -> Adder:
    return lambda so_far, _, value: adder(so_far, value)
