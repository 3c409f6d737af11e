"""A table: the last value of each key, and the stream of its changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from moldau.streams.dsl import foldings, joins
from moldau.streams.dsl.calls import NO_TYPE, call_of, pair_call_of
from moldau.streams.dsl.inference import pair_types, result_type
from moldau.streams.dsl.joins import Joiner, join_by_foreign_key
from moldau.streams.dsl.node import Node
from moldau.streams.dsl.options import TableOptions, check_options, emit_of, store_of
from moldau.streams.dsl.suppression import Suppression
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Folding
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.joins import JoinKind
from moldau.streams.plan.operations import Step
from moldau.streams.plan.policies import Policy
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.compound import update_codec
from moldau.streams.serdes.types import stored_codec
from moldau.streams.state.spec import StoreKind

if TYPE_CHECKING:
    from moldau.streams.dsl.stream import Stores, Stream
    from moldau.streams.engine.operators.process import Context

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")

ErrorPolicy = Policy | str | None


class Table(Node, Generic[K, V]):
    """The last value of each key. An update replaces the value; null deletes it."""

    def changes(self) -> Stream[K, V]:
        """Return the updates as records: the key and the new value, None for a deletion."""
        from moldau.streams.dsl.stream import Stream

        return Stream(self._graph, self._added("changes", op.Changes(), is_table=False))

    def filter(
        self, predicate: Callable[..., object], *, on_error: ErrorPolicy = None
    ) -> Table[K, V]:
        """Keep the rows for which the predicate holds. Any other row is deleted downstream."""
        call = call_of(predicate, "filter")
        step = self._added(f"filter({call})", op.TableFilter(call), on_error=on_error)
        return Table(self._graph, step)

    def filter_not(
        self, predicate: Callable[..., object], *, on_error: ErrorPolicy = None
    ) -> Table[K, V]:
        """Keep the rows for which the predicate does not hold."""
        call = call_of(predicate, "filter_not")
        operation = op.TableFilter(call, is_negated=True)
        return Table(self._graph, self._added(f"filter_not({call})", operation, on_error=on_error))

    def map_values(
        self, function: Callable[..., V2], *, type: Any = None, on_error: ErrorPolicy = None
    ) -> Table[K, V2]:
        """Map the value of each row to another."""
        call = call_of(function, "map_values")
        step = self._step
        kind = result_type(call, step.key_type, step.value_type) if type is None else type
        operation = op.TableMapValues(call)
        return Table(
            self._graph,
            self._added(f"map_values({call})", operation, value=kind, on_error=on_error),
        )

    def process(
        self,
        make: Callable[[Context], Any],
        *,
        name: str | None = None,
        stores: Stores = (),
        key: Any = NO_TYPE,
        type: Any = Any,
        on_error: ErrorPolicy = None,
    ) -> Stream[Any, Any]:
        """Pass the changes of the table to an operator of your own: make(context) has
        process(record). Return the stream of what it forwards.

        `record.value` is the new value, None for a deletion, and `record.old` the one that the
        table emitted before. `stores` and `key` are those of `Stream.process`.
        """
        from moldau.streams.dsl.stream import Stream, UserOperator, process_step

        step = process_step(self, UserOperator(make, stores, name), (key, type), on_error=on_error)
        return Stream(self._graph, step)

    def process_values(
        self,
        make: Callable[[Context], Any],
        *,
        name: str,
        stores: Stores = (),
        **options: Unpack[TableOptions],
    ) -> Table[K, Any]:
        """Make a table of this one with an operator of your own: process(record) of make(context)
        returns the new value of the row, None for none.

        It is called for each change, also with None for a deletion. The rows are kept in a store
        called `name`; the operator has `stores` and timers, and forwards nothing.
        """
        from moldau.streams.dsl.stream import row_steps

        check_options("process_values", options, TableOptions)
        step = row_steps(self, make, stores, name=name, options=options)
        return Table(self._graph, step)

    def join(
        self,
        other: Table[Any, Any],
        function: Joiner | None = None,
        *,
        on: Callable[..., Any] | None = None,
        name: str | None = None,
        on_error: ErrorPolicy = None,
    ) -> Table[K, Any]:
        """Join the rows of two tables by key. Each update of either table gives a result.

        `on` makes a foreign key from a row: the key of a row of the other table. That needs a name.
        """
        return self._joined(JoinKind.INNER, other, function, (on, name), on_error)

    def left_join(
        self,
        other: Table[Any, Any],
        function: Joiner | None = None,
        *,
        on: Callable[..., Any] | None = None,
        name: str | None = None,
        on_error: ErrorPolicy = None,
    ) -> Table[K, Any]:
        """Join as `join` does; a row without a match in the other table is joined with None."""
        return self._joined(JoinKind.LEFT, other, function, (on, name), on_error)

    def outer_join(
        self,
        other: Table[Any, Any],
        function: Joiner | None = None,
        *,
        on_error: ErrorPolicy = None,
    ) -> Table[K, Any]:
        """Join as `join` does; a row of either table without a match is joined with None."""
        return self._joined(JoinKind.OUTER, other, function, (None, None), on_error)

    def _joined(
        self,
        kind: JoinKind,
        other: Table[Any, Any],
        function: Joiner | None,
        how: tuple[Callable[..., Any] | None, str | None],
        on_error: ErrorPolicy,
    ) -> Table[K, Any]:
        on, name = how
        if not isinstance(other, Table):
            raise TopologyError(
                f"join: a table joins a table, not {other!r:.80}; a stream joins a table by "
                "stream.join(table), or is made one by to_table(name=...)"
            )
        graph = joins.same_app((self, other), "join")
        if on is None:
            step = joins.join_tables((self, other), kind, function)
        else:
            step = join_by_foreign_key((self, other), kind, (on, function), name)
            joins.failing(graph, graph.steps[f"{step.name}-subscribe"], on_error)
        return Table(graph, joins.failing(graph, step, on_error))

    def late(self) -> Stream[Any, Any]:
        """Return the records that came too late for a window, unchanged."""
        from moldau.streams.dsl.stream import Stream

        operation = self._step.operation
        if not isinstance(
            operation, op.WindowAggregate | op.SessionAggregate | op.SlidingAggregate
        ):
            raise TopologyError(f"late: {self._name} is no aggregation in windows that end")
        before = self._graph.steps[self._step.parents[0]]
        step = self._added(
            "late", op.Late(), key=before.key_type, value=before.value_type, is_table=False
        )
        return Stream(self._graph, step)

    def group_by(
        self,
        function: Callable[[K, V], tuple[Any, Any]],
        *,
        key: Any = None,
        type: Any = None,
        on_error: ErrorPolicy = None,
    ) -> GroupedTable:
        """Group the rows by another key: function(key, value) -> (key, value)."""
        call = pair_call_of(function, "group_by")
        step = self._step
        kinds = pair_types(result_type(call, step.key_type, step.value_type))
        kinds = (kinds[0] if key is None else key, kinds[1] if type is None else type)
        added = self._added(
            f"group_by({call})",
            op.Regroup(call),
            key=kinds[0],
            value=update_codec(stored_codec(kinds[1])),
            on_error=on_error,
            is_table=False,
        )
        rekeyed = replace(added, is_rekeyed=True)
        self._graph.steps[added.name] = rekeyed
        return GroupedTable(self._graph, rekeyed, kinds[1])

    def suppress(self, suppression: Suppression, *, name: str) -> Table[K, V]:
        """Hold updates back: with `until_close()` for windows, or with `until_time(limit)`."""
        graph, step = self._graph, self._step
        claimed = graph.claim_store(name, "suppress")
        operation = suppression.operation(graph, claimed, step)
        return Table(graph, self._added(claimed, operation))

    def _typed(self, kind: Any) -> Table[K, Any]:
        """Set the type of the values for later steps, not for the store, and return this table."""
        self._graph.steps[self._name] = replace(self._step, value_type=kind)
        return self


class GroupedTable(Node):
    """A table's rows grouped by another key. Each aggregation needs a name for its state."""

    def __init__(self, graph: Graph, step: Step, row_type: Any) -> None:
        super().__init__(graph, step)
        self._row_type = row_type

    def count(self, *, name: str | None = None, **options: Unpack[TableOptions]) -> Any:
        """Count the rows. Return a table."""
        return self._folded(foldings.count(), int, name, options)

    def sum(
        self,
        of: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Any:
        """Add up the values of the rows, or what `of` selects. Return a table."""
        call = None if of is None else call_of(of, "sum")
        kind = self._row_type
        if call is not None:
            kind = result_type(call, self._step.key_type, self._row_type)
        return self._folded(foldings.total(call), kind, name, options)

    def mean(
        self,
        of: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Any:
        """Compute the mean of the rows' values, or of what `of` selects. Return a table."""
        call = None if of is None else call_of(of, "mean")
        table = self._folded(foldings.mean(call), tuple[int | float, int], name, options)
        return table._typed(float)

    def reduce(
        self,
        add: Callable[[Any, Any], Any],
        remove: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Any:
        """Combine values: add(so far, value), and remove(so far, old value). Return a table."""
        return self._folded(foldings.reduce(add, remove), self._row_type, name, options)

    def aggregate(
        self,
        initial: Any,
        add: Callable[..., Any],
        remove: Callable[..., Any],
        *,
        name: str | None = None,
        **options: Unpack[TableOptions],
    ) -> Any:
        """Fold values with add(so far, value), and take old ones out with remove(so far, value)."""
        folding = foldings.aggregate(initial, add, remove, None)
        return self._folded(folding, foldings.aggregate_type(initial, add), name, options)

    def _folded(self, folding: Folding, kind: Any, name: str | None, options: TableOptions) -> Any:

        check_options(folding.name, options, TableOptions)
        claimed = self._graph.claim_store(name, folding.name)
        parent = Node(self._graph, self._partitioned(claimed))
        types = (parent._step.key_type, options.get("type", kind))
        store = store_of(claimed, StoreKind.KEY_VALUE, types, options)
        operation = op.TableAggregate(store, folding, emit_of(self._graph, options, folding.name))
        added = parent._added(
            claimed, operation, value=types[1], is_table=True, on_error=options.get("on_error")
        )
        return Table(self._graph, added)
