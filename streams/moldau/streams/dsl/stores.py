"""Stores for the operators that users write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Unpack

from moldau.streams.dsl.joins import same_app
from moldau.streams.dsl.node import Node
from moldau.streams.dsl.options import RowOptions, StateStoreOptions, check_options, versioned
from moldau.streams.dsl.table import Table
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import stores_of
from moldau.streams.plan.joins import Resolve
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.types import key_codec, stored_codec
from moldau.streams.state.spec import StoreKind, StoreSpec

_READABLE = op.TableSource | op.ToTable | op.Aggregate | op.TableAggregate | Resolve


class StateStore:
    """A store of a user's operator. A changelog topic keeps its rows, unless `logged` is False.
    With `ttl="7d"` a row goes when stream time is so far after its last `put`.

    `StateStore(...)` has one value for each key. The class methods make stores that keep values by
    time, for `retention`.
    """

    def __init__(
        self,
        name: str,
        *,
        key: Any = Any,
        value: Any = Any,
        ttl: Duration | None = None,
        **options: Unpack[StateStoreOptions],
    ) -> None:
        check_options(f"store {name}", options, StateStoreOptions)
        spec = StoreSpec(
            name,
            StoreKind.KEY_VALUE,
            key_codec(key),
            stored_codec(value),
            is_logged=options.get("logged", True),
            is_in_memory=options.get("in_memory", False),
        )
        if ttl is not None:
            spec = replace(spec, retention_ms=_positive(ttl, name, "ttl"), is_timed=True)
        self.spec = versioned(spec, options.get("version", 1), options.get("migrate"))

    @classmethod
    def windows(
        cls,
        name: str,
        *,
        size: Duration,
        retention: Duration,
        key: Any = Any,
        value: Any = Any,
        **options: Unpack[RowOptions],
    ) -> StateStore:
        """Make a store by key and window: `put(key, value, start)`, `fetch(key, first, last)`."""
        size_ms = _positive(size, name, "size")
        retention_ms = _positive(retention, name, "retention")
        if retention_ms < size_ms:
            raise TopologyError(
                f"store {name}: retention={retention!r} must cover a window of size={size!r}"
            )
        found = cls._kept(name, StoreKind.WINDOW, retention_ms, (key, value), options)
        found.spec = replace(found.spec, window_ms=size_ms, windows=f"of {size_ms} ms")
        return found

    @classmethod
    def sessions(
        cls,
        name: str,
        *,
        retention: Duration,
        key: Any = Any,
        value: Any = Any,
        **options: Unpack[RowOptions],
    ) -> StateStore:
        """Make a store by key and session: `put(key, start, end, value)`, `find(key, ...)`."""
        retention_ms = _positive(retention, name, "retention")
        found = cls._kept(name, StoreKind.SESSION, retention_ms, (key, value), options)
        found.spec = replace(found.spec, slice_ms=retention_ms)
        return found

    @classmethod
    def versions(
        cls,
        name: str,
        *,
        retention: Duration,
        key: Any = Any,
        value: Any = Any,
        **options: Unpack[RowOptions],
    ) -> StateStore:
        """Make a store by key and time: `put(key, value, time)`, `as_of(key, time)`."""
        retention_ms = _positive(retention, name, "retention")
        return cls._kept(name, StoreKind.VERSIONED, retention_ms, (key, value), options)

    @classmethod
    def _kept(
        cls,
        name: str,
        kind: StoreKind,
        retention_ms: int,
        types: tuple[Any, Any],
        options: RowOptions,
    ) -> StateStore:
        check_options(f"store {name}", options, RowOptions)
        found = cls(name, key=types[0], value=types[1], **options)
        found.spec = replace(found.spec, kind=kind, retention_ms=retention_ms)
        return found


def _positive(duration: Duration, name: str, option: str) -> int:
    found = milliseconds(duration, f"store {name} {option}")
    if found <= 0:
        raise TopologyError(f"store {name}: {option}={duration!r} must be above 0")
    return found


def global_spec(store: StateStore, topic: str) -> StoreSpec:
    """Return the spec of a global store of a topic. Raise TopologyError for a store that cannot be
    one: its rows come from the topic alone."""
    if not isinstance(store, StateStore):
        raise TopologyError(f"global_store: store={store!r:.80} must be a StateStore")
    spec = store.spec
    problem = (
        "it keeps values by time" if spec.kind is not StoreKind.KEY_VALUE
        else "it has a ttl" if spec.is_timed
        else "it is in memory" if spec.is_in_memory
        else "it has a version" if spec.version > 1
        else None
    )  # fmt: skip
    if problem is not None:
        raise TopologyError(
            f"global_store: the store {spec.name}: {problem}: a global store is a plain "
            'StateStore("name", key=..., value=...), which the topic makes again'
        )
    return replace(spec, is_logged=False, source_topic=topic)


def readable_tables(reader: Node, tables: Iterable[object]) -> dict[str, StoreSpec]:
    """Return the stores of the tables that `process` reads, by the names of their steps. Raise
    TopologyError for anything but a table, and for a table without a key-value store of its own."""
    found = {}
    for table in tables:
        if not isinstance(table, Table):
            raise TopologyError(
                f"process: stores=[...] takes StateStores and tables, not {table!r:.80}: "
                'give it StateStore("name") or the table itself'
            )
        same_app((reader, table), "process")
        step = table._step
        kept = stores_of(step) if isinstance(step.operation, _READABLE) else []
        if not kept or kept[0].kind is not StoreKind.KEY_VALUE:
            raise TopologyError(
                f"process: the table {step.name} has no key-value store of its own to read: "
                'keep its rows with changes().to_table(name="...")'
            )
        found[step.name] = kept[0]
    return found
