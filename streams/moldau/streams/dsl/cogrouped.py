"""Several grouped streams in one aggregate: each has its own function, and all share one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack

from moldau.streams.dsl import foldings
from moldau.streams.dsl.calls import check_sync
from moldau.streams.dsl.inference import required_parameters
from moldau.streams.dsl.joins import settle_key, unified_key
from moldau.streams.dsl.node import Node
from moldau.streams.dsl.options import TableOptions
from moldau.streams.dsl.windowing import Windowing
from moldau.streams.durations import Duration
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Call
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.steps import Step
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.compound import tagged_codec
from moldau.streams.serdes.types import stored_codec
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.windows import SessionWindows, TimeWindows, UnlimitedWindows, Windows

if TYPE_CHECKING:
    from moldau.streams.dsl.grouped import Grouped
    from moldau.streams.dsl.table import Table

K = TypeVar("K")
R = TypeVar("R")

Adder = Callable[..., Any]


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
        from moldau.streams.dsl.grouped import Grouped

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
