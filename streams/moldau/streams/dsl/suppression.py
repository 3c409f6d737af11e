"""Suppressions: how long a table's updates are held back."""

from __future__ import annotations

from typing import Any, Literal

from moldau.deferred import dataclass
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.plan import operations as op
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.operations import Step
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.compound import suppressed_codec
from moldau.streams.serdes.types import key_codec, stored_codec
from moldau.streams.state.spec import StoreKind, StoreSpec


@dataclass(frozen=True, slots=True)
class Suppression:
    """How long and how many updates are held back. `limit_ms` None: until windows close."""

    limit_ms: int | None = None
    records_max: int | None = None
    bytes_max: int | None = None
    emits_when_full: bool = False
    idle_ms: int | None = None

    def operation(self, graph: Graph, name: str, step: Step) -> op.Suppress:
        """Return the operation that follows the table `step`."""
        store = StoreSpec(
            name,
            StoreKind.KEY_VALUE,
            key_codec(step.key_type),
            suppressed_codec(stored_codec(step.value_type)),
            is_timed=True,
        )
        limit_ms, window_ms = self.limit_ms, 0
        if limit_ms is None:
            limit_ms, window_ms = _open_ms(graph, name, step)
        return op.Suppress(
            store,
            until_close=self.limit_ms is None,
            limit_ms=limit_ms,
            window_ms=window_ms,
            records_max=self.records_max,
            bytes_max=self.bytes_max,
            emits_when_full=self.emits_when_full,
            idle_ms=self.idle_ms,
        )


def until_close(
    *, max_records: int | None = None, max_bytes: int | None = None, idle: Duration | None = None
) -> Suppression:
    """Emit only the last update of each window, once the window and its grace are over.

    Holding more than `max_records` or `max_bytes` is an error: a result must not come out early.
    """
    return Suppression(None, max_records, max_bytes, idle_ms=_idle(idle))


def until_time(
    limit: Duration,
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    when_full: Literal["emit", "fail"] = "emit",
    idle: Duration | None = None,
) -> Suppression:
    """Emit at most one update of a key per `limit`. A full buffer emits its oldest, or fails."""
    limit_ms = milliseconds(limit, "until_time")
    if limit_ms < 0:
        raise TopologyError(f"until_time: {limit!r} must not be negative")
    if when_full not in ("emit", "fail"):
        raise TopologyError(f'until_time: when_full={when_full!r} must be "emit" or "fail"')
    return Suppression(limit_ms, max_records, max_bytes, when_full == "emit", _idle(idle))


def _idle(idle: Duration | None) -> int | None:
    return None if idle is None else milliseconds(idle, "suppress idle")


def _open_ms(graph: Graph, name: str, step: Step) -> tuple[int, int]:
    """Return how long after its end a window of a table can still change, and how long a window is,
    0 if its records decide; in milliseconds."""
    while True:
        operation: Any = step.operation
        if isinstance(operation, op.WindowAggregate | op.SlidingAggregate | op.SessionAggregate):
            windows: Any = operation.windows
            grace = getattr(windows, "grace_ms", None)
            if grace is not None:
                sizes = (getattr(windows, each, 0) for each in ("size_ms", "difference_ms"))
                return int(grace) + int(getattr(windows, "gap_ms", 0)), max(sizes)
        if len(step.parents) != 1 or not step.is_table:
            raise TopologyError(
                f"{name}: until_close() needs a table in windows that end; use until_time(...)"
            )
        step = graph.steps[step.parents[0]]
