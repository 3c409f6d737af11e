"""Options of tables: how they are kept, and when they announce updates."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from moldau.streams.durations import Duration, milliseconds
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.operations import Emit
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.types import key_codec, stored_codec
from moldau.streams.state.spec import StoreKind, StoreSpec


class TableOptions(TypedDict, total=False):
    """`emit`: "commit" (the last update of each key at a commit), "every", and for windows "close".
    `logged` False keeps no changelog: the state is lost with the machine. `retain` keeps windows
    for queries. `config` has settings of the changelog topic. `versioned` keeps the
    history of each key for so long (to_table). `type` is that of the values."""

    emit: Literal["commit", "every", "close"]
    logged: bool
    retain: Duration
    config: dict[str, str]
    type: Any
    versioned: Duration


def store_of(
    name: str,
    kind: StoreKind,
    types: tuple[Any, Any],
    options: TableOptions,
    *,
    retention_ms: int | None = None,
    window_ms: int | None = None,
) -> StoreSpec:
    """The store of a table. Windows are retained at least as long as they accept records."""
    key, value = types
    if "versioned" in options:
        if kind is not StoreKind.KEY_VALUE:
            raise TopologyError(f"{name}: versioned=... is for tables without windows")
        kind = StoreKind.VERSIONED
        retention_ms = milliseconds(options["versioned"], f"{name} versioned")
    if "retain" in options:
        retained = milliseconds(options["retain"], f"{name} retain")
        if retention_ms is None or retained < retention_ms:
            raise TopologyError(
                f"{name}: retain={options['retain']!r} must cover the window and its grace"
                if retention_ms is not None
                else f"{name}: retain is for windows; a table keeps its rows"
            )
        retention_ms = retained
    return StoreSpec(
        name,
        kind,
        key_codec(key),
        stored_codec(value),
        retention_ms=retention_ms,
        is_logged=options.get("logged", True),
        window_ms=window_ms,
        topic_config=options.get("config", {}),
    )


def emit_of(
    graph: Graph, options: TableOptions, operator: str, *, has_windows: bool = False
) -> Emit:
    given = options.get("emit")
    if given is None:
        return graph.emit
    if given not in ("commit", "every", "close") or (given == "close" and not has_windows):
        allowed = '"commit", "every" or "close"' if has_windows else '"commit" or "every"'
        raise TopologyError(f"{operator}: emit={given!r} must be {allowed}")
    return Emit(given)
