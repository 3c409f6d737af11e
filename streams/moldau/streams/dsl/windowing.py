"""Aggregations in windows: the operation and the store for each kind of window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, cast

from moldau.deferred import dataclass
from moldau.streams.dsl.options import TableOptions, emit_of, store_of
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Folding
from moldau.streams.plan.graph import Graph
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.compound import counted_codec
from moldau.streams.serdes.types import key_codec, stored_codec
from moldau.streams.serdes.windowed import SessionWindowed, TimeWindowed
from moldau.streams.state.spec import StoreKind, StoreSpec, slice_of
from moldau.streams.windows import (
    CountWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)

# The windowing, and the types of keys, aggregates and records.
HowAndTypes = tuple["Windowing", Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Windowing:
    """How records are assigned to windows, and when results are emitted."""

    windows: Windows
    emit: Literal["commit", "every", "close"] | None
    idle_ms: int | None


def windowed_operation(
    graph: Graph, name: str, folding: Folding, how: HowAndTypes, options: TableOptions
) -> tuple[op.Operation, Any]:
    """Return the operation, and the type of the keys of its table."""
    windowing, key, value, _ = how
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
        store = replace(store, windows=windows.kept)
        found = op.WindowAggregate(store, folding, windows, emit, windowing.idle_ms)
        return found, TimeWindowed(key, windows.size_ms)
    if isinstance(windows, UnlimitedWindows):
        if emit is op.Emit.CLOSE:
            raise TopologyError(f'{name}: emit="close" never comes: an unlimited window has no end')
        store = store_of(name, StoreKind.WINDOW, (key, value), options)
        store = replace(store, windows=windows.kept)
        return op.WindowAggregate(store, folding, windows, emit), TimeWindowed(key, None)
    if isinstance(windows, SessionWindows):
        if folding.merge is None:
            raise TopologyError(
                f"{name}: sessions merge, so aggregate needs merge=...: merge(one, other)"
            )
        retention = windows.gap_ms + windows.grace_ms
        types = (key, value)
        store = store_of(name, StoreKind.SESSION, types, options, retention_ms=retention)
        store = replace(
            store, slice_ms=store.retention_ms, is_timed=emit is op.Emit.CLOSE, windows=windows.kept
        )
        sessions = op.SessionAggregate(store, folding, windows, emit, windowing.idle_ms)
        return sessions, SessionWindowed(key)
    if isinstance(windows, SlidingWindows):
        return _sliding(graph, name, folding, how, options)
    return _counted(graph, name, folding, how, options)


def _sliding(
    graph: Graph, name: str, folding: Folding, how: HowAndTypes, options: TableOptions
) -> tuple[op.Operation, Any]:
    windowing, key, value, record = how
    windows = windowing.windows
    assert isinstance(windows, SlidingWindows)
    size = windows.difference_ms
    store = store_of(
        name,
        StoreKind.WINDOW,
        (key, value),
        options,
        retention_ms=size + 1 + windows.grace_ms,
        window_ms=size,
    )
    store = replace(store, windows=windows.kept)
    # A late record may still open the window before it.
    records = StoreSpec(
        graph.claim_store(f"{name}-records", folding.name),
        StoreKind.WINDOW,
        key_codec(key),
        stored_codec(record),
        retention_ms=2 * (size + 1) + windows.grace_ms,
        is_logged=store.is_logged,
        is_in_memory=store.is_in_memory,
        has_duplicates=True,
        slice_ms=slice_of(size + 1, 2 * (size + 1) + windows.grace_ms),
    )
    emit = emit_of(graph, options, folding.name, has_windows=True)
    found = op.SlidingAggregate(store, records, folding, windows, emit, windowing.idle_ms)
    return found, TimeWindowed(key, size)


def _counted(
    graph: Graph, name: str, folding: Folding, how: HowAndTypes, options: TableOptions
) -> tuple[op.Operation, Any]:
    windowing, key, value, _ = how
    windows = windowing.windows
    assert isinstance(windows, CountWindows)
    if windowing.idle_ms is not None:
        raise TopologyError(f"{name}: idle=... is for windows of time, not for count windows")
    if options.get("version", 1) != 1:
        raise TopologyError(f"{name}: version=... is not for count windows: rename the store")
    codec = stored_codec(value)
    store = store_of(name, StoreKind.KEY_VALUE, (key, counted_codec(codec)), options)
    store = replace(store, windows=windows.kept)
    emit = emit_of(graph, options, folding.name, has_windows=True)
    found = op.CountAggregate(store, codec, folding, windows, emit)
    return found, TimeWindowed(key, windows.size)
