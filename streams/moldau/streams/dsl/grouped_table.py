"""A table's rows grouped by another key: their aggregates also take old values out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from moldau.streams.dsl import foldings
from moldau.streams.dsl.calls import call_of
from moldau.streams.dsl.inference import result_type
from moldau.streams.dsl.node import Node
from moldau.streams.dsl.options import TableOptions, check_options, emit_of, store_of
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Folding
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.steps import Step
from moldau.streams.state.spec import StoreKind


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
        from moldau.streams.dsl.table import Table

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
