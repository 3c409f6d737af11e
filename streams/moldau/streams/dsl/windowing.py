"""Aggregations in windows: the operation and the store of each kind of window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from moldau.streams.dsl.options import TableOptions, emit_of, store_of
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Folding
from moldau.streams.plan.graph import Graph
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.windowed import TimeWindowed
from moldau.streams.state.spec import StoreKind
from moldau.streams.windows import TimeWindows, UnlimitedWindows, Windows


@dataclass(frozen=True, slots=True)
class Windowing:
    """How records are put into windows, and when results are seen."""

    windows: Windows
    emit: Literal["commit", "every", "close"] | None
    idle_ms: int | None


def windowed_operation(
    graph: Graph,
    name: str,
    folding: Folding,
    how: tuple[Windowing, Any, Any],
    options: TableOptions,
) -> tuple[op.Operation, Any]:
    """The operation, and the type of the keys of its table."""
    windowing, key, value = how
    if windowing.emit is not None:
        options = cast(TableOptions, {**options, "emit": windowing.emit})
    windows = windowing.windows
    emit = emit_of(graph, options, folding.name, has_windows=True)
    if isinstance(windows, TimeWindows):
        store = store_of(
            name,
            StoreKind.WINDOW,
            (key, value),
            options,
            retention_ms=windows.size_ms + windows.grace_ms,
            window_ms=windows.size_ms,
        )
        found = op.WindowAggregate(store, folding, windows, emit, windowing.idle_ms)
        return found, TimeWindowed(key, windows.size_ms)
    if isinstance(windows, UnlimitedWindows):
        if emit is op.Emit.CLOSE:
            raise TopologyError(f'{name}: emit="close" never comes: an unlimited window has no end')
        store = store_of(name, StoreKind.WINDOW, (key, value), options)
        return op.WindowAggregate(store, folding, windows, emit), TimeWindowed(key, None)
    raise TopologyError(f"{name}: no {folding.name} in windows of {windows}")
