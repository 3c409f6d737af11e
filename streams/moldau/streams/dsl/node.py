"""The base of streams, tables and groups: a place in the graph, and adding a step after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.streams.dsl.calls import NO_TYPE
from moldau.streams.dsl.hints import no_operator
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.operations import Operation, Repartition
from moldau.streams.plan.policies import Policy, policy
from moldau.streams.plan.steps import Step


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
