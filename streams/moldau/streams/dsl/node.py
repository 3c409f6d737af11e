"""The base of streams, tables and groups: a place in the graph, and adding a step after it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from moldau.streams.dsl.calls import NO_TYPE
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.operations import Operation, Repartition, Step
from moldau.streams.plan.policies import Policy, policy
from moldau.streams.problems import TopologyError

_FOLDS: Final = (
    "aggregate", "collect", "count", "distinct", "max", "mean", "min", "reduce", "sum", "top_k",
)  # fmt: skip
_OF_STREAMS: Final = (
    "branch", "flat_map", "flat_map_pairs", "map", "map_batch", "merge", "peek", "repartition",
    "select_key", "to",
)  # fmt: skip


_OF_KAFKA: Final = {
    "foreach": "peek", "not_filter": "filter_not", "through": "repartition",
    "to_stream": "changes", "transform_values": "process_values",
    "windowed_by": "window",
}  # fmt: skip
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Node:
    """A step of the graph that other steps can follow."""

    def __init__(self, graph: Graph, step: Step) -> None:
        self._graph = graph
        self._name = step.name

    if not TYPE_CHECKING:  # a type checker must still find names that do not exist

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError with what to write instead, if another class has the name."""
            raise no_operator(type(self), name)

    @property
    def _step(self) -> Step:
        return self._graph.steps[self._name]

    def _added(
        self,
        name: str,
        operation: Operation,
        *,
        key: Any = NO_TYPE,
        value: Any = NO_TYPE,
        on_error: Policy | str | None = None,
        is_table: bool | None = None,
    ) -> Step:
        """Add a step after this one and return it. Types that are not given stay the same."""
        before = self._step
        return self._graph.add(
            Step(
                name,
                (before.name,),
                operation,
                before.key_type if key is NO_TYPE else key,
                before.value_type if value is NO_TYPE else value,
                is_rekeyed=before.is_rekeyed or (key is not NO_TYPE and not before.is_table),
                is_table=before.is_table if is_table is None else is_table,
                on_error=None if on_error is None else policy(on_error),
            )
        )

    def _partitioned(self, name: str, *, keeps_null_keys: bool = False) -> Step:
        """Return this step, or a repartition of it if keys may have changed."""
        step = self._step
        if not step.is_rekeyed:
            return step
        for other in self._graph.steps.values():
            operation = other.operation
            if isinstance(operation, Repartition) and other.parents == (step.name,):
                if keeps_null_keys and not operation.keeps_null_keys:
                    continue
                return other
        topic = f"{self._graph.app}-{name}-repartition"
        repartition = Repartition(topic, keeps_null_keys=keeps_null_keys)
        return self._graph.add(
            Step(f"{name}-repartition", (step.name,), repartition, step.key_type, step.value_type)
        )


class NoSuchOperator(TopologyError, AttributeError):
    """A stream, a table or a group was asked for an operator of another one."""


def no_operator(owner: type, name: str) -> AttributeError:
    """Return the error for a method `name` that the class does not have. The name may be the one of
    Kafka Streams: mapValues, toStream."""
    plain = _HUMP.sub("_", name).lower()
    here = _OF_KAFKA.get(plain, plain)
    if here != name and hasattr(owner, here):
        return NoSuchOperator(f"{name}: its name is .{here}(...) here")
    hint = _hint(owner.__name__, here)
    if hint is None:
        return AttributeError(f"{owner.__name__!r} object has no attribute {name!r}")
    return NoSuchOperator(hint)


def _hint(kind: str, name: str) -> str | None:
    if kind == "Stream":
        if name in (*_FOLDS, "window", "cogroup"):
            how = "window(...)" if name == "window" else f"{name}(...)"
            return (
                f"{name}: a stream has no {name}: group its records first, with "
                f".group_by_key().{how}, or by another key with .group_by(...).{how}"
            )
        if name == "changes":
            return "changes: a stream consists of records already: write .to(...) or others"
        if name == "process_values":
            return "process_values: it is for tables: of a stream use .process(...)"
        if name == "suppress":
            return "suppress: it holds back the updates of a table: make one first, as with count"
    if kind == "Table":
        if name in _OF_STREAMS:
            return f"{name}: it is for streams: .changes() gives the updates of a table as one"
        if name in (*_FOLDS, "group_by_key", "window"):
            return (
                f"{name}: group the rows of a table by another key first: "
                ".group_by(lambda key, value: (key, value))"
            )
    if kind == "Grouped" and name in (*_OF_STREAMS, "changes", "filter", "join", "suppress"):
        return f'{name}: aggregate the group first, for example with .count(name="...")'
    return None
