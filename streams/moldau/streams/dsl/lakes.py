"""Lake tables in the DSL: what was given, checked."""

from __future__ import annotations

import os
from typing import Any, Final, get_args

from moldau.streams.durations import Duration, milliseconds
from moldau.streams.expressions.column import Column
from moldau.streams.expressions.kinds import Kind, fields_of, is_mapping, kind_of, without_none
from moldau.streams.expressions.tree import Expression, fields_in
from moldau.streams.expressions.typed import condition
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.plan import LakeFormat, LakeTable
from moldau.streams.problems import TopologyError

_FORMATS: Final = get_args(LakeFormat)


def lake_table(
    graph: Graph, name: str, what: tuple[Any, ...], refresh: Duration, wanted: Any
) -> LakeTable:
    """Return the table; `what` is its value type, format, path and key, `wanted` the condition for
    its rows or None. Raise TopologyError if one of them cannot be."""
    kind, format, path, key = what
    where = f"app={graph.app} lake_table({name!r})"
    if format not in _FORMATS:
        raise TopologyError(f"{where}: format={format!r}: formats are {', '.join(_FORMATS)}")
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise TopologyError(f"{where}: path={path!r} is no path of a folder")
    if not isinstance(key, str) or not key:
        raise TopologyError(f'{where}: key={key!r}: name the column with the key, as key="id"')
    bare, _ = without_none(kind)
    if kind_of(bare) is not Kind.ANY and not is_mapping(bare) and fields_of(bare) is None:
        shown = getattr(bare, "__name__", str(bare))
        raise TopologyError(f"{where}: {shown} has no fields, so no columns fit it")
    refresh_ms = milliseconds(refresh, "lake_table refresh")
    if refresh_ms <= 0:
        raise TopologyError(f"{where}: refresh={refresh!r} must be above 0")
    node = _condition(wanted, bare, where)
    location = os.fspath(path).rstrip("/") or "/"
    table = LakeTable(
        graph.claim_store(name, "lake_table"), format, location, key, kind, refresh_ms, node
    )
    graph.lake_tables[table.name] = table
    return table


def _condition(wanted: Any, kind: Any, where: str) -> Expression | None:
    """Return the condition for rows. It may read columns that the rows do not keep; their types are
    known when the files are read."""
    if wanted is None:
        return None
    if not isinstance(wanted, Column):
        raise TopologyError(f'{where}: where={wanted!r:.60}: write an expression: col("a") > 1')
    if fields_in(wanted.node) <= (fields_of(kind) or {}).keys():
        condition(wanted.node, kind, f"{where}: where")
    return wanted.node
