"""Stores for operators that users write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moldau.streams.dsl.joins import same_app
from moldau.streams.dsl.node import Node
from moldau.streams.dsl.table import Table
from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import stores_of
from moldau.streams.plan.joins import Resolve
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.types import key_codec, stored_codec
from moldau.streams.state.spec import StoreKind, StoreSpec

_READABLE = op.TableSource | op.ToTable | op.Aggregate | op.TableAggregate | Resolve


class StateStore:
    """A key-value store: its rows survive as a changelog topic, unless `logged` is False."""

    def __init__(self, name: str, *, key: Any = Any, value: Any = Any, logged: bool = True) -> None:
        self.spec = StoreSpec(
            name, StoreKind.KEY_VALUE, key_codec(key), stored_codec(value), is_logged=logged
        )


def readable_tables(reader: Node, tables: Iterable[object]) -> dict[str, StoreSpec]:
    """The stores of tables that `process` is given, by their steps. TopologyError for what is no
    table, and for a table that is not kept by its key in a store of its own."""
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
