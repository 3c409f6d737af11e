"""Records grouped by key, with or without windows, and their aggregation into tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, Unpack

from moldau.streams.dsl import foldings
from moldau.streams.dsl.aggregates import Aggregation
from moldau.streams.dsl.calls import call_of
from moldau.streams.dsl.cogrouped import Cogrouped
from moldau.streams.dsl.inference import result_type
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
from moldau.streams.plan.steps import Step
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.compound import list_kind
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.state.spec import StoreKind
from moldau.streams.windows import Windows

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

# Selects what to sum, compare or collect: a function of the value, or of key and value.
Selector = Callable[..., R] | Column
Emits = Literal["commit", "every", "close"]


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
